// Runs the suite's commands (clients/driver.py) on HiveMQ MQTT clients.

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.hivemq.client.internal.mqtt.MqttClientConfig;
import com.hivemq.client.mqtt.MqttClientSslConfig;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.TrustManagerFactory;

/** Reads one request a line, answers each; see clients/driver.py for the fields. */
public final class Driver {
    /** The library has no way to do it. */
    static final class Unsupported extends RuntimeException {
        Unsupported(String feature) {
            super(feature);
        }
    }

    /** The broker refused CONNECT. */
    static final class Refused extends RuntimeException {
        final int code;
        final JsonObject properties;

        Refused(int code, JsonObject properties) {
            this.code = code;
            this.properties = properties;
        }
    }

    /** One client of either version. */
    interface Session {
        CompletableFuture<JsonObject> connect(JsonObject request);

        CompletableFuture<JsonObject> publish(JsonObject request);

        CompletableFuture<JsonObject> subscribe(JsonObject request);

        CompletableFuture<JsonObject> unsubscribe(JsonObject request);

        CompletableFuture<JsonObject> disconnect(JsonObject request);

        /** Proves again who the client is. */
        default CompletableFuture<JsonObject> reauth() {
            throw new Unsupported("authentication again in 3.1.1");
        }

        void ack(int handle);

        MqttClientConfig config();
    }

    private static final Gson GSON = new Gson();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, Session> SESSIONS = new ConcurrentHashMap<>();

    static synchronized void send(JsonObject line) {
        OUT.println(GSON.toJson(line));
        OUT.flush();
    }

    static JsonObject codes(JsonArray codes) {
        JsonObject found = new JsonObject();
        found.add("codes", codes);
        return found;
    }

    /** TLS as the door of the options has it; null without. */
    static MqttClientSslConfig tls(JsonObject options) {
        JsonObject door = options.getAsJsonObject("door");
        if (!door.get("web").isJsonNull() || !door.get("unix").isJsonNull()) {
            throw new Unsupported("this door");
        }
        if (!door.get("tls").getAsBoolean()) {
            return null;
        }
        try {
            var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            KeyStore authorities = empty();
            authorities.setCertificateEntry("authority", certificate(door.get("authority").getAsString()));
            trust.init(authorities);
            var made = MqttClientSslConfig.builder().trustManagerFactory(trust);
            if (!door.get("certificate").isJsonNull()) {
                var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
                KeyStore own = empty();
                Certificate[] chain = {certificate(door.get("certificate").getAsString())};
                own.setKeyEntry("own", key(door.get("key").getAsString()), new char[0], chain);
                keys.init(own, new char[0]);
                made.keyManagerFactory(keys);
            }
            return made.build();
        } catch (GeneralSecurityException | java.io.IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static KeyStore empty() throws GeneralSecurityException, java.io.IOException {
        KeyStore made = KeyStore.getInstance("PKCS12");
        made.load(null, null);
        return made;
    }

    private static Certificate certificate(String file) throws GeneralSecurityException, java.io.IOException {
        try (var input = Files.newInputStream(Path.of(file))) {
            return CertificateFactory.getInstance("X.509").generateCertificate(input);
        }
    }

    /** An EC key in PKCS #8. */
    private static java.security.PrivateKey key(String file) throws GeneralSecurityException, java.io.IOException {
        String text = Files.readString(Path.of(file)).replaceAll("-----[A-Z ]+-----|\\s", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
    }

    static Throwable cause(Throwable error) {
        return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    }

    /** Closes the socket from within the client's own event loop: the library offers no end without DISCONNECT. */
    private static CompletableFuture<JsonObject> drop(Session session) {
        var connection = session.config().getRawConnectionConfig();
        var done = new CompletableFuture<JsonObject>();
        if (connection == null) {
            done.complete(new JsonObject());
            return done;
        }
        var channel = connection.getChannel();
        channel.eventLoop().execute(() -> {
            channel.unsafe().closeForcibly();
            channel.pipeline().fireChannelInactive();
            done.complete(new JsonObject());
        });
        return done;
    }

    private static CompletableFuture<JsonObject> run(JsonObject request) {
        String name = request.get("client").getAsString();
        String op = request.get("op").getAsString();
        if (op.equals("connect")) {
            Session made = request.get("version").getAsInt() == 5 ? new Session5(name) : new Session3(name);
            SESSIONS.put(name, made);
            return made.connect(request);
        }
        Session session = SESSIONS.get(name);
        return switch (op) {
            case "publish" -> session.publish(request);
            case "subscribe" -> session.subscribe(request);
            case "unsubscribe" -> session.unsubscribe(request);
            case "disconnect" -> session.disconnect(request);
            case "reauth" -> session.reauth();
            case "drop" -> drop(session);
            case "ack" -> {
                session.ack(request.get("handle").getAsInt());
                yield CompletableFuture.completedFuture(new JsonObject());
            }
            default -> throw new IllegalArgumentException(op);
        };
    }

    private static void answer(JsonElement id, JsonObject ok, Throwable failure) {
        JsonObject line = new JsonObject();
        line.add("id", id);
        Throwable error = failure == null ? null : cause(failure);
        if (error == null) {
            line.add("ok", ok);
        } else if (error instanceof Unsupported) {
            line.addProperty("unsupported", error.getMessage());
        } else if (error instanceof Refused refused) {
            line.addProperty("refused", refused.code);
            line.add("properties", refused.properties);
        } else {
            line.addProperty("error", String.valueOf(error));
        }
        send(line);
    }

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject request = GSON.fromJson(line, JsonObject.class);
            JsonElement id = request.get("id");
            try {
                run(request).whenComplete((ok, error) -> answer(id, ok, error));
            } catch (RuntimeException error) {
                answer(id, null, error);
            }
        }
        System.exit(0);
    }

    private Driver() {}
}
