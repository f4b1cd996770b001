import java.io.FileWriter;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** A receiver of client metrics (KIP-714) that writes each payload as a line to the file of the property `receiver.file`. */
public class Receiver implements MetricsReporter, ClientTelemetry {
    private String file;

    public void configure(Map<String, ?> configs) {
        file = (String) configs.get("receiver.file");
    }

    public ClientTelemetryReceiver clientReceiver() {
        return this::write;
    }

    private synchronized void write(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data();
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        try (FileWriter out = new FileWriter(file, true)) {
            out.write(payload.clientInstanceId() + " " + payload.isTerminating() + " " + payload.contentType() + " " + context.clientId() + " " + HexFormat.of().formatHex(bytes) + "\n");
        } catch (java.io.IOException e) {
            throw new RuntimeException(e);
        }
    }

    public void init(List<KafkaMetric> metrics) { }
    public void metricChange(KafkaMetric metric) { }
    public void metricRemoval(KafkaMetric metric) { }
    public void close() { }
}
