import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/** `FILE SEED`: writes a segment of message sets (magic 0 and 1) and record batches of random kinds with Kafka's own builder. */
public class OldFormats {
    private static final CompressionType[] CODECS = {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4};

    public static void main(String[] args) throws Exception {
        Random draw = new Random(Long.parseLong(args[1]));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        long offset = 0;
        for (int set = 0; set < 300; set++) {
            byte magic = (byte) draw.nextInt(3);
            TimestampType type = magic > 0 && draw.nextInt(3) == 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
            long now = 1_450_000_000_000L + set * 1000L;
            ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, magic, Compression.of(CODECS[draw.nextInt(CODECS.length)]).build(), type, offset,
                type == TimestampType.LOG_APPEND_TIME ? now : RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
                RecordBatch.NO_SEQUENCE, false, false, RecordBatch.NO_PARTITION_LEADER_EPOCH, buffer.capacity());
            for (int count = 1 + draw.nextInt(9); count > 0; count--) {
                offset += draw.nextInt(4) == 0 ? draw.nextInt(5) : 0;
                builder.appendWithOffset(offset++, magic == 0 ? RecordBatch.NO_TIMESTAMP : now + draw.nextInt(900), bytes(draw), bytes(draw));
            }
            MemoryRecords records = builder.build();
            byte[] data = new byte[records.sizeInBytes()];
            records.buffer().get(data);
            out.write(data);
        }
        Files.write(Path.of(args[0]), out.toByteArray());
    }

    private static byte[] bytes(Random draw) {
        if (draw.nextInt(4) == 0)
            return null;
        return "x".repeat(draw.nextInt(draw.nextInt(10) == 0 ? 3000 : 30)).concat(Integer.toString(draw.nextInt())).getBytes();
    }
}
