// Kafka's command line tools, one after the other in one JVM: each line of stdin is a class and its arguments, separated by tabs.
// Tells on stdout, for each: a line with the exit status and the number of bytes that follow, then what the tool wrote to stdout and stderr.
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

public class Tools {
    private static Integer exitStatus;

    /** Thrown where a tool wants to end the JVM. Some catch it and print it: it prints nothing. */
    static final class Ended extends RuntimeException {
        Ended() { super("", null, false, false); }

        @Override public void printStackTrace(PrintStream out) { }
    }

    private static void end(int status) {
        if (exitStatus == null) exitStatus = status;
        throw new Ended();
    }

    /** Kafka's Exit is in another package since 4.4. */
    private static void catchExits() throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object ends = Proxy.newProxyInstance(procedure.getClassLoader(), new Class<?>[] {procedure}, (self, method, given) -> {
            end((Integer) given[0]);
            return null;
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, ends);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, ends);
    }

    private static int run(String[] words) throws Exception {
        exitStatus = null;
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
        } catch (InvocationTargetException wrapped) {
            if (!(wrapped.getCause() instanceof Ended)) throw wrapped;
        }
        return exitStatus == null ? 0 : exitStatus;
    }

    public static void main(String[] arguments) throws Exception {
        catchExits();
        PrintStream out = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(written, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            int status = run(line.split("\t", -1));
            both.flush();
            out.println(status + " " + written.size());
            out.flush();
            written.writeTo(out);
            out.flush();
        }
    }
}
