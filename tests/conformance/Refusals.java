import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.NotCoordinatorException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/** Reads lines `KEY VERSION HEX` (the body of a request); prints the body of the answer that Kafka's class makes of an error, as `KEY VERSION HEX`, or what it throws. */
public class Refusals {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            System.out.println(words[0] + " " + version + " " + answer(ApiKeys.forId(Short.parseShort(words[0])), version, HexFormat.of().parseHex(words[2])));
        }
    }

    private static String answer(ApiKeys api, short version, byte[] body) {
        try {
            AbstractRequest request = AbstractRequest.parseRequest(api, version, new ByteBufferAccessor(ByteBuffer.wrap(body))).request;
            AbstractResponse response = request.getErrorResponse(0, new NotCoordinatorException("no"));
            if (response == null)
                return "none";
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(response.data().size(cache, version));
            response.data().write(new ByteBufferAccessor(out), cache, version);
            return HexFormat.of().formatHex(out.array());
        } catch (Exception e) {
            return "threw " + e;
        }
    }
}
