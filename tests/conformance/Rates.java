import java.util.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.metrics.stats.*;
import org.apache.kafka.common.utils.*;
import java.util.concurrent.TimeUnit;

/** Random uses of a Rate and a TokenBucket, and how long one has to wait after each of them. */
public class Rates {
    public static void main(String[] args) {
        Random random = new Random(7);
        StringBuilder out = new StringBuilder("{\"rates\": [\n");
        for (int c = 0; c < 40; c++) out.append(c == 0 ? "" : ",\n").append(run(c, random, false));
        out.append("\n], \"buckets\": [\n");
        for (int c = 0; c < 20; c++) out.append(c == 0 ? "" : ",\n").append(run(c, random, true));
        System.out.println(out.append("\n]}"));
    }

    static String run(int c, Random random, boolean bucket) {
        int number = 1 + random.nextInt(12);
        int seconds = 1 + random.nextInt(3);
        double bound = Math.round(Math.pow(10, random.nextDouble() * 5)) / (random.nextBoolean() ? 1.0 : 4.0);
        Time time = new NoTime();
        Metrics metrics = new Metrics(time);
        MetricConfig config = new MetricConfig().timeWindow(seconds, TimeUnit.SECONDS).samples(number).quota(new Quota(bound, true));
        Sensor sensor = metrics.sensor("s");
        MetricName name = metrics.metricName("n", "g");
        sensor.add(name, bucket ? new TokenBucket() : new Rate(), config);
        long now = 1000000 + random.nextInt(1000);
        StringBuilder uses = new StringBuilder(), expected = new StringBuilder();
        for (int i = 0; i < 40; i++) {
            double value = Math.floor(bound * seconds * random.nextDouble() * 3 * (random.nextInt(8) == 0 ? 20 : 1)) + (random.nextBoolean() ? 0.5 : 0);
            long throttle = 0;
            try {
                sensor.record(value, now, true);
            } catch (QuotaViolationException e) {
                if (bucket) throttle = Math.round(-e.value() / e.bound() * 1000);
                else {
                    double difference = e.value() - e.bound();
                    throttle = Math.round(difference / e.bound() * ((Rate) e.metric().measurable()).windowSize(config, now));
                }
            }
            uses.append(i == 0 ? "" : ", ").append("[" + now + ", " + value + "]");
            expected.append(i == 0 ? "" : ", ").append(throttle);
            int kind = random.nextInt(10);
            now += kind < 3 ? 0 : kind < 6 ? random.nextInt(50) : kind < 9 ? random.nextInt(2500) : random.nextInt(number * seconds * 2000);
        }
        return "{\"name\": \"" + c + "\", \"number\": " + number + ", \"size_ms\": " + seconds * 1000 + ", \"bound\": " + bound + ", \"uses\": [" + uses + "], \"expected\": [" + expected + "]}";
    }

    /** Nobody asks it: each use says when it is. */
    static class NoTime implements Time {
        public long milliseconds() { return 0; }
        public long nanoseconds() { return 0; }
        public void sleep(long ms) { }
        public void waitObject(Object obj, java.util.function.Supplier<Boolean> condition, long deadline) { }
        public org.apache.kafka.common.utils.Timer timer(long t) { return null; }
    }
}
