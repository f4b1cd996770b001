import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Answers the lines of a file with Java's classes, one line each. Fields are hexadecimal UTF-8, so that nothing in them
 * can be taken for an end.
 *
 * name DER        the text of a Name (X500Principal.getName)
 * map RULES NAME  what ssl.principal.mapping.rules make of a name; "-" when rules or name are refused
 */
public class Principals {
    public static void main(String[] args) throws Exception {
        List<String> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = words[0].equals("name")
                    ? new X500Principal(HexFormat.of().parseHex(words[1])).getName()
                    : SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
                answer = "=" + HexFormat.of().formatHex(answer.getBytes("UTF-8"));
            } catch (Exception refused) {
                answer = "-";
            }
            answers.add(answer);
        }
        Files.write(Path.of(args[1]), answers);
    }

    private static String text(String hex) throws Exception {
        return new String(HexFormat.of().parseHex(hex), "UTF-8");
    }
}
