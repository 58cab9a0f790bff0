import com.hivemq.client.mqtt.datatypes.MqttUtf8String;
import com.hivemq.client.mqtt.mqtt5.Mqtt5ClientConfig;
import com.hivemq.client.mqtt.mqtt5.auth.Mqtt5EnhancedAuthMechanism;
import com.hivemq.client.mqtt.mqtt5.message.auth.Mqtt5Auth;
import com.hivemq.client.mqtt.mqtt5.message.auth.Mqtt5AuthBuilder;
import com.hivemq.client.mqtt.mqtt5.message.auth.Mqtt5EnhancedAuth;
import com.hivemq.client.mqtt.mqtt5.message.auth.Mqtt5EnhancedAuthBuilder;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5Connect;
import com.hivemq.client.mqtt.mqtt5.message.connect.connack.Mqtt5ConnAck;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5Disconnect;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import javax.crypto.Mac;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.SecretKeySpec;

/** SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding: the library's exchange, the JDK's cryptography. The server has to prove itself as well. */
final class Scram implements Mqtt5EnhancedAuthMechanism {
    /** Exchanges that have ended with the server's proof. */
    int proven;

    private final String user;
    private final String password;
    private String nonce;
    private byte[] signature;

    Scram(String user, String password) {
        this.user = user;
        this.password = password;
    }

    @Override
    public MqttUtf8String getMethod() {
        return MqttUtf8String.of("SCRAM-SHA-256");
    }

    @Override
    public int getTimeout() {
        return 20;
    }

    private String first() {
        return "n=" + user + ",r=" + nonce;
    }

    private CompletableFuture<Void> begin(Mqtt5EnhancedAuthBuilder auth) {
        nonce = UUID.randomUUID().toString();
        auth.data(("n,," + first()).getBytes(StandardCharsets.UTF_8));
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> onAuth(Mqtt5ClientConfig config, Mqtt5Connect connect, Mqtt5EnhancedAuthBuilder auth) {
        return begin(auth);
    }

    @Override
    public CompletableFuture<Void> onReAuth(Mqtt5ClientConfig config, Mqtt5AuthBuilder auth) {
        return begin(auth);
    }

    private static byte[] bytes(Optional<ByteBuffer> data) {
        ByteBuffer given = data.orElseThrow().duplicate();
        byte[] copy = new byte[given.remaining()];
        given.get(copy);
        return copy;
    }

    private static byte[] hmac(byte[] key, String text) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public CompletableFuture<Boolean> onContinue(Mqtt5ClientConfig config, Mqtt5Auth given, Mqtt5AuthBuilder auth) {
        String answer = new String(bytes(given.getData()), StandardCharsets.UTF_8);
        String[] parts = answer.split(",");
        String both = parts[0].substring(2);
        if (!both.startsWith(nonce) || both.equals(nonce)) {
            return CompletableFuture.completedFuture(false);
        }
        try {
            byte[] salt = Base64.getDecoder().decode(parts[1].substring(2));
            var spec = new PBEKeySpec(password.toCharArray(), salt, Integer.parseInt(parts[2].substring(2)), 256);
            byte[] salted = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(spec).getEncoded();
            byte[] key = hmac(salted, "Client Key");
            byte[] stored = MessageDigest.getInstance("SHA-256").digest(key);
            String last = "c=biws,r=" + both;
            String all = first() + "," + answer + "," + last;
            byte[] proof = hmac(stored, all);
            for (int at = 0; at < proof.length; at++) {
                proof[at] ^= key[at];
            }
            signature = hmac(hmac(salted, "Server Key"), all);
            auth.data((last + ",p=" + Base64.getEncoder().encodeToString(proof)).getBytes(StandardCharsets.UTF_8));
            return CompletableFuture.completedFuture(true);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private CompletableFuture<Boolean> end(Optional<ByteBuffer> data) {
        String expected = "v=" + Base64.getEncoder().encodeToString(signature);
        boolean isServer = expected.equals(new String(bytes(data), StandardCharsets.UTF_8));
        proven += isServer ? 1 : 0;
        return CompletableFuture.completedFuture(isServer);
    }

    @Override
    public CompletableFuture<Boolean> onAuthSuccess(Mqtt5ClientConfig config, Mqtt5ConnAck connAck) {
        return end(connAck.getEnhancedAuth().flatMap(Mqtt5EnhancedAuth::getData));
    }

    @Override
    public CompletableFuture<Boolean> onReAuthSuccess(Mqtt5ClientConfig config, Mqtt5Auth auth) {
        return end(auth.getData());
    }

    @Override
    public void onAuthRejected(Mqtt5ClientConfig config, Mqtt5ConnAck connAck) {}

    @Override
    public void onReAuthRejected(Mqtt5ClientConfig config, Mqtt5Disconnect disconnect) {}

    @Override
    public void onAuthError(Mqtt5ClientConfig config, Throwable cause) {}

    @Override
    public void onReAuthError(Mqtt5ClientConfig config, Throwable cause) {}
}
