// Prints of the kafka-clients jar on the class path: API key, name, lowest and highest version, whether brokers serve it.
// testcontrol/faults/releases.json was made of one jar for each release:
//   javac ApiVersionsOf.java && java -cp .:kafka-clients-2.4.1.jar:slf4j-api.jar ApiVersionsOf
import java.lang.reflect.*;
public class ApiVersionsOf {
  public static void main(String[] a) throws Exception {
    Class<?> k = Class.forName("org.apache.kafka.common.protocol.ApiKeys");
    StringBuilder out = new StringBuilder();
    for (Object e : k.getEnumConstants()) {
      short id = k.getField("id").getShort(e);
      int last, first;
      try {
        try { last = (Short) k.getMethod("latestVersion", boolean.class).invoke(e, false); }
        catch (NoSuchMethodException x) { last = (Short) k.getMethod("latestVersion").invoke(e); }
        first = (Short) k.getMethod("oldestVersion").invoke(e);
      } catch (NoSuchMethodException x) {
        Class<?> p = Class.forName("org.apache.kafka.common.protocol.Protocol");
        last = ((short[]) p.getField("CURR_VERSION").get(null))[id];
        first = ((short[]) p.getField("MIN_VERSIONS").get(null))[id];
      }
      boolean broker = true;
      try {
        Class<?> lt = Class.forName("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        Method m = k.getMethod("apisForListener", lt);
        broker = false;
        for (Object l : lt.getEnumConstants()) {
          String n = l.toString();
          if (n.equalsIgnoreCase("broker") || n.equalsIgnoreCase("zkBroker") || n.equalsIgnoreCase("ZK_BROKER"))
            if (((java.util.Collection<?>) m.invoke(null, l)).contains(e)) broker = true;
        }
      } catch (ReflectiveOperationException x) { }
      if (last < first) continue;
      System.out.println(id + " " + e + " " + first + " " + last + " " + broker);
    }
  }
}
