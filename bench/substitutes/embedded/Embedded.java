import org.springframework.kafka.test.EmbeddedKafkaKraftBroker;

/** An embedded broker as tests of Spring have it, in a JVM of its own: prints its address, and runs until it is killed. */
final class Embedded {
    public static void main(String[] arguments) throws InterruptedException {
        EmbeddedKafkaKraftBroker broker = new EmbeddedKafkaKraftBroker(1, 1);
        broker.brokerProperty("group.initial.rebalance.delay.ms", "0");
        broker.brokerProperty("offsets.topic.num.partitions", "1");
        broker.brokerProperty("transaction.state.log.replication.factor", "1");
        broker.brokerProperty("transaction.state.log.min.isr", "1");
        broker.afterPropertiesSet();
        System.out.println("embedded " + broker.getBrokersAsString());
        Thread.currentThread().join();
    }
}
