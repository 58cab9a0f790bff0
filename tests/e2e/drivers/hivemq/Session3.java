import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.hivemq.client.internal.mqtt.MqttClientConfig;
import com.hivemq.client.internal.mqtt.mqtt3.Mqtt3ClientConfigView;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.datatypes.MqttTopicFilter;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.Mqtt3Client;
import com.hivemq.client.mqtt.mqtt3.exceptions.Mqtt3ConnAckException;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3Connect;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import com.hivemq.client.mqtt.mqtt3.message.subscribe.Mqtt3Subscribe;
import com.hivemq.client.mqtt.mqtt3.message.subscribe.Mqtt3Subscription;
import com.hivemq.client.mqtt.mqtt3.message.unsubscribe.Mqtt3Unsubscribe;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** An MQTT 3.1.1 client. */
final class Session3 implements Driver.Session {
    private final String name;
    private final Map<Integer, Mqtt3Publish> held = new ConcurrentHashMap<>();
    private final AtomicInteger handles = new AtomicInteger();
    private Mqtt3AsyncClient client;
    private boolean manual;

    Session3(String name) {
        this.name = name;
    }

    @Override
    public MqttClientConfig config() {
        try {
            // The 3.1.1 client is a view of the common one.
            var field = Mqtt3ClientConfigView.class.getDeclaredField("delegate");
            field.setAccessible(true);
            return (MqttClientConfig) field.get(client.getConfig());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Mqtt3Publish message(String topic, byte[] payload, JsonObject fields) {
        return Mqtt3Publish.builder().topic(topic).payload(payload).qos(MqttQos.fromCode(fields.get("qos").getAsInt()))
            .retain(fields.get("retain").getAsBoolean()).build();
    }

    @Override
    public CompletableFuture<JsonObject> connect(JsonObject request) {
        JsonObject options = request.getAsJsonObject("options");
        manual = options.get("manual_acks").getAsBoolean();
        var builder = Mqtt3Client.builder().serverHost(request.get("host").getAsString())
            .serverPort(request.get("port").getAsInt()).sslConfig(Driver.tls(options)).addDisconnectedListener(context -> {
                JsonObject event = new JsonObject();
                event.addProperty("event", "closed");
                event.addProperty("client", name);
                Driver.send(event);
            });
        String id = options.get("client_id").getAsString();
        client = (id.isEmpty() ? builder : builder.identifier(id)).buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::received, Runnable::run, manual);
        var made = Mqtt3Connect.builder().cleanSession(options.get("clean_start").getAsBoolean())
            .keepAlive(options.get("keep_alive").getAsInt());
        if (!options.get("will").isJsonNull()) {
            JsonObject will = options.getAsJsonObject("will");
            byte[] payload = Base64.getDecoder().decode(will.get("payload").getAsString());
            made.willPublish(message(will.get("topic").getAsString(), payload, will));
        }
        return client.connect(made.build()).handle((ack, error) -> {
            if (error == null) {
                JsonObject found = new JsonObject();
                found.addProperty("session_present", ack.isSessionPresent());
                found.addProperty("reason_code", ack.getReturnCode().getCode());
                return found;
            }
            if (Driver.cause(error) instanceof Mqtt3ConnAckException refused) {
                throw new Driver.Refused(refused.getMqttMessage().getReturnCode().getCode(), new JsonObject());
            }
            throw new IllegalStateException(Driver.cause(error));
        });
    }

    private void received(Mqtt3Publish publish) {
        JsonObject event = new JsonObject();
        event.addProperty("event", "message");
        event.addProperty("client", name);
        event.addProperty("topic", publish.getTopic().toString());
        event.addProperty("payload", Base64.getEncoder().encodeToString(publish.getPayloadAsBytes()));
        event.addProperty("qos", publish.getQos().getCode());
        event.addProperty("retain", publish.isRetain());
        if (manual) {
            int handle = handles.incrementAndGet();
            held.put(handle, publish);
            event.addProperty("handle", handle);
        }
        Driver.send(event);
    }

    @Override
    public void ack(int handle) {
        held.remove(handle).acknowledge();
    }

    @Override
    public CompletableFuture<JsonObject> publish(JsonObject request) {
        List<CompletableFuture<Mqtt3Publish>> sent = new ArrayList<>();
        for (JsonElement item : request.getAsJsonArray("messages")) {
            JsonArray pair = item.getAsJsonArray();
            byte[] payload = Base64.getDecoder().decode(pair.get(1).getAsString());
            sent.add(client.publish(message(pair.get(0).getAsString(), payload, request)));
        }
        return CompletableFuture.allOf(sent.toArray(new CompletableFuture[0])).thenApply(all -> {
            JsonArray codes = new JsonArray();
            sent.forEach(one -> codes.add(0));
            return Driver.codes(codes);
        });
    }

    @Override
    public CompletableFuture<JsonObject> subscribe(JsonObject request) {
        List<Mqtt3Subscription> wanted = new ArrayList<>();
        for (JsonElement element : request.getAsJsonArray("subscriptions")) {
            JsonObject item = element.getAsJsonObject();
            wanted.add(Mqtt3Subscription.builder().topicFilter(item.get("filter").getAsString())
                .qos(MqttQos.fromCode(item.get("qos").getAsInt())).build());
        }
        return client.subscribe(Mqtt3Subscribe.builder().addSubscriptions(wanted).build()).thenApply(ack -> {
            JsonArray codes = new JsonArray();
            ack.getReturnCodes().forEach(code -> codes.add(code.getCode()));
            return Driver.codes(codes);
        });
    }

    @Override
    public CompletableFuture<JsonObject> unsubscribe(JsonObject request) {
        List<MqttTopicFilter> filters = new ArrayList<>();
        request.getAsJsonArray("filters").forEach(filter -> filters.add(MqttTopicFilter.of(filter.getAsString())));
        return client.unsubscribe(Mqtt3Unsubscribe.builder().addTopicFilters(filters).build())
            .thenApply(done -> Driver.codes(new JsonArray()));
    }

    @Override
    public CompletableFuture<JsonObject> disconnect(JsonObject request) {
        return client.disconnect().thenApply(done -> new JsonObject());
    }
}
