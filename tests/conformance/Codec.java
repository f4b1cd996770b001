import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads lines `CLASS VERSION HEX`; lets Kafka's class read the bytes and write them again; prints the lines that differ, then a count. */
public class Codec {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        int count = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine(), count++) {
            String[] words = line.split(" ", -1);
            String wrong = roundTrip(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2]));
            if (wrong != null)
                System.out.println("differs: " + wrong + ": " + line);
        }
        System.out.println("messages: " + count);
    }

    private static String roundTrip(String name, short version, byte[] bytes) throws Exception {
        ApiMessage message = (ApiMessage) Class.forName(name).getDeclaredConstructor().newInstance();
        ByteBuffer in = ByteBuffer.wrap(bytes);
        try {
            message.read(new ByteBufferAccessor(in), version);
        } catch (RuntimeException e) {
            return e.toString();
        }
        if (in.hasRemaining())
            return in.remaining() + " bytes left over";
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return Arrays.equals(out.array(), bytes) ? null : HexFormat.of().formatHex(out.array());
    }
}
