import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.hivemq.client.internal.mqtt.MqttClientConfig;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.lifecycle.MqttClientDisconnectedContext;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5Client;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperties;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserPropertiesBuilder;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5ConnAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5DisconnectException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5PubAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5PubRecException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5SubAckException;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5UnsubAckException;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5Connect;
import com.hivemq.client.mqtt.mqtt5.message.connect.connack.Mqtt5ConnAck;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5Disconnect;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5DisconnectReasonCode;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishBuilder;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishResult;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5WillPublish;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5RetainHandling;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5Subscribe;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5Subscription;
import com.hivemq.client.mqtt.mqtt5.message.unsubscribe.Mqtt5Unsubscribe;
import com.hivemq.client.mqtt.datatypes.MqttTopicFilter;
import com.hivemq.client.mqtt.datatypes.MqttUtf8String;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** An MQTT 5 client. */
final class Session5 implements Driver.Session {
    private final String name;
    private final Map<Integer, Mqtt5Publish> held = new ConcurrentHashMap<>();
    private final AtomicInteger handles = new AtomicInteger();
    private Mqtt5AsyncClient client;
    private boolean manual;
    private Scram scram;

    Session5(String name) {
        this.name = name;
    }

    @Override
    public MqttClientConfig config() {
        return (MqttClientConfig) client.getConfig();
    }

    private static Mqtt5UserProperties userProperties(JsonObject properties) {
        Mqtt5UserPropertiesBuilder found = Mqtt5UserProperties.builder();
        if (properties.has("user_properties")) {
            for (JsonElement pair : properties.getAsJsonArray("user_properties")) {
                found.add(pair.getAsJsonArray().get(0).getAsString(), pair.getAsJsonArray().get(1).getAsString());
            }
        }
        return found.build();
    }

    private static byte[] bytes(JsonElement value) {
        return Base64.getDecoder().decode(value.getAsString());
    }

    private static Mqtt5Publish message(String topic, byte[] payload, JsonObject fields, JsonObject properties) {
        if (properties.has("topic_alias")) {
            throw new Driver.Unsupported("a chosen topic alias");
        }
        var made = Mqtt5Publish.builder().topic(topic).payload(payload)
            .qos(MqttQos.fromCode(fields.get("qos").getAsInt())).retain(fields.get("retain").getAsBoolean())
            .userProperties(userProperties(properties));
        if (properties.has("message_expiry")) made.messageExpiryInterval(properties.get("message_expiry").getAsLong());
        if (properties.has("content_type")) made.contentType(properties.get("content_type").getAsString());
        if (properties.has("response_topic")) made.responseTopic(properties.get("response_topic").getAsString());
        if (properties.has("correlation_data")) made.correlationData(bytes(properties.get("correlation_data")));
        if (properties.has("payload_format")) {
            made.payloadFormatIndicator(Mqtt5PayloadFormatIndicator.fromCode(properties.get("payload_format").getAsInt()));
        }
        return made.build();
    }

    private Mqtt5Connect connectMessage(JsonObject options, JsonObject properties) {
        var made = Mqtt5Connect.builder().cleanStart(options.get("clean_start").getAsBoolean())
            .keepAlive(options.get("keep_alive").getAsInt()).userProperties(userProperties(properties));
        if (properties.has("session_expiry")) made.sessionExpiryInterval(properties.get("session_expiry").getAsLong());
        if (!options.get("scram").isJsonNull()) {
            JsonArray given = options.getAsJsonArray("scram");
            scram = new Scram(given.get(0).getAsString(), given.get(1).getAsString());
            made.enhancedAuth(scram);
        }
        var limits = made.restrictions();
        if (properties.has("receive_maximum")) limits.receiveMaximum(properties.get("receive_maximum").getAsInt());
        if (properties.has("maximum_packet_size")) limits.maximumPacketSize(properties.get("maximum_packet_size").getAsInt());
        if (properties.has("topic_alias_maximum")) limits.topicAliasMaximum(properties.get("topic_alias_maximum").getAsInt());
        if (properties.has("request_problem_info")) {
            limits.requestProblemInformation(properties.get("request_problem_info").getAsInt() == 1);
        }
        if (properties.has("request_response_info")) {
            limits.requestResponseInformation(properties.get("request_response_info").getAsInt() == 1);
        }
        limits.applyRestrictions();
        if (!options.get("will").isJsonNull()) {
            JsonObject will = options.getAsJsonObject("will");
            JsonObject given = will.getAsJsonObject("properties");
            var last = message(will.get("topic").getAsString(), bytes(will.get("payload")), will, given).asWill();
            Mqtt5WillPublish whole = ((com.hivemq.client.internal.mqtt.message.publish.MqttWillPublish) last).extendAsWill()
                .delayInterval(given.has("will_delay") ? given.get("will_delay").getAsLong() : 0).build();
            made.willPublish(whole);
        }
        return made.build();
    }

    @Override
    public CompletableFuture<JsonObject> connect(JsonObject request) {
        JsonObject options = request.getAsJsonObject("options");
        manual = options.get("manual_acks").getAsBoolean();
        var builder = Mqtt5Client.builder().serverHost(request.get("host").getAsString())
            .serverPort(request.get("port").getAsInt()).addDisconnectedListener(this::closed)
            .sslConfig(Driver.tls(options));
        String id = options.get("client_id").getAsString();
        client = (id.isEmpty() ? builder : builder.identifier(id)).buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::received, Runnable::run, manual);
        return client.connect(connectMessage(options, options.getAsJsonObject("properties"))).handle((ack, error) -> {
            if (error == null) {
                return connack(ack);
            }
            if (Driver.cause(error) instanceof Mqtt5ConnAckException refused) {
                var answer = refused.getMqttMessage();
                throw new Driver.Refused(answer.getReasonCode().getCode(), reference(answer.getServerReference()));
            }
            throw new IllegalStateException(Driver.cause(error));
        });
    }

    private static JsonObject reference(Optional<MqttUtf8String> reference) {
        JsonObject properties = new JsonObject();
        reference.ifPresent(text -> properties.addProperty("server_reference", text.toString()));
        return properties;
    }

    private static JsonObject connack(Mqtt5ConnAck ack) {
        JsonObject properties = new JsonObject();
        ack.getAssignedClientIdentifier().ifPresent(id -> properties.addProperty("assigned_client_id", id.toString()));
        ack.getServerKeepAlive().ifPresent(seconds -> properties.addProperty("server_keep_alive", seconds));
        ack.getSessionExpiryInterval().ifPresent(seconds -> properties.addProperty("session_expiry", seconds));
        ack.getResponseInformation().ifPresent(text -> properties.addProperty("response_info", text.toString()));
        var limits = ack.getRestrictions();
        properties.addProperty("receive_maximum", limits.getReceiveMaximum());
        properties.addProperty("maximum_packet_size", limits.getMaximumPacketSize());
        properties.addProperty("topic_alias_maximum", limits.getTopicAliasMaximum());
        properties.addProperty("maximum_qos", limits.getMaximumQos().getCode());
        properties.addProperty("retain_available", limits.isRetainAvailable() ? 1 : 0);
        properties.addProperty("wildcard_available", limits.isWildcardSubscriptionAvailable() ? 1 : 0);
        properties.addProperty("shared_available", limits.isSharedSubscriptionAvailable() ? 1 : 0);
        properties.addProperty("subscription_ids_available", limits.areSubscriptionIdentifiersAvailable() ? 1 : 0);
        JsonObject found = new JsonObject();
        found.addProperty("session_present", ack.isSessionPresent());
        found.addProperty("reason_code", ack.getReasonCode().getCode());
        found.add("properties", properties);
        return found;
    }

    private void closed(MqttClientDisconnectedContext context) {
        JsonObject event = new JsonObject();
        event.addProperty("event", "closed");
        event.addProperty("client", name);
        if (context.getCause() instanceof Mqtt5DisconnectException given) {
            event.addProperty("reason", given.getMqttMessage().getReasonCode().getCode());
            event.add("properties", reference(given.getMqttMessage().getServerReference()));
        }
        Driver.send(event);
    }

    private void received(Mqtt5Publish publish) {
        JsonObject properties = new JsonObject();
        publish.getMessageExpiryInterval().ifPresent(seconds -> properties.addProperty("message_expiry", seconds));
        publish.getPayloadFormatIndicator().ifPresent(format -> properties.addProperty("payload_format", format.getCode()));
        publish.getContentType().ifPresent(text -> properties.addProperty("content_type", text.toString()));
        publish.getResponseTopic().ifPresent(text -> properties.addProperty("response_topic", text.toString()));
        publish.getCorrelationData().ifPresent(data -> {
            byte[] copy = new byte[data.remaining()];
            data.get(copy);
            properties.addProperty("correlation_data", Base64.getEncoder().encodeToString(copy));
        });
        JsonArray pairs = new JsonArray();
        publish.getUserProperties().asList().forEach(property -> {
            JsonArray pair = new JsonArray();
            pair.add(property.getName().toString());
            pair.add(property.getValue().toString());
            pairs.add(pair);
        });
        if (!pairs.isEmpty()) properties.add("user_properties", pairs);
        JsonObject event = new JsonObject();
        event.addProperty("event", "message");
        event.addProperty("client", name);
        event.addProperty("topic", publish.getTopic().toString());
        event.addProperty("payload", Base64.getEncoder().encodeToString(publish.getPayloadAsBytes()));
        event.addProperty("qos", publish.getQos().getCode());
        event.addProperty("retain", publish.isRetain());
        event.add("properties", properties);
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

    private static int code(Mqtt5PublishResult result, Throwable error) {
        Throwable cause = error == null ? null : Driver.cause(error);
        if (cause instanceof Mqtt5PubAckException refused) return refused.getMqttMessage().getReasonCode().getCode();
        if (cause instanceof Mqtt5PubRecException refused) return refused.getMqttMessage().getReasonCode().getCode();
        if (cause != null) throw new IllegalStateException(cause);
        if (result instanceof Mqtt5PublishResult.Mqtt5Qos1Result one) return one.getPubAck().getReasonCode().getCode();
        if (result instanceof Mqtt5PublishResult.Mqtt5Qos2Result two) return two.getPubRec().getReasonCode().getCode();
        return 0;
    }

    @Override
    public CompletableFuture<JsonObject> publish(JsonObject request) {
        JsonObject properties = request.getAsJsonObject("properties");
        List<CompletableFuture<Integer>> sent = new ArrayList<>();
        for (JsonElement item : request.getAsJsonArray("messages")) {
            JsonArray pair = item.getAsJsonArray();
            Mqtt5Publish made = message(pair.get(0).getAsString(), bytes(pair.get(1)), request, properties);
            sent.add(client.publish(made).handle(Session5::code));
        }
        return CompletableFuture.allOf(sent.toArray(new CompletableFuture[0])).thenApply(all -> {
            JsonArray codes = new JsonArray();
            sent.forEach(one -> codes.add(one.join()));
            return Driver.codes(codes);
        });
    }

    @Override
    public CompletableFuture<JsonObject> subscribe(JsonObject request) {
        if (request.getAsJsonObject("properties").has("subscription_id")) {
            throw new Driver.Unsupported("a chosen subscription identifier");
        }
        List<Mqtt5Subscription> wanted = new ArrayList<>();
        for (JsonElement element : request.getAsJsonArray("subscriptions")) {
            JsonObject item = element.getAsJsonObject();
            wanted.add(Mqtt5Subscription.builder().topicFilter(item.get("filter").getAsString())
                .qos(MqttQos.fromCode(item.get("qos").getAsInt())).noLocal(item.get("no_local").getAsBoolean())
                .retainAsPublished(item.get("retain_as_published").getAsBoolean())
                .retainHandling(Mqtt5RetainHandling.fromCode(item.get("retain_handling").getAsInt())).build());
        }
        return client.subscribe(Mqtt5Subscribe.builder().addSubscriptions(wanted).build()).handle((ack, error) -> {
            var found = ack;
            if (error != null && Driver.cause(error) instanceof Mqtt5SubAckException refused) {
                found = refused.getMqttMessage();
            } else if (error != null) {
                throw new IllegalStateException(Driver.cause(error));
            }
            JsonArray codes = new JsonArray();
            found.getReasonCodes().forEach(code -> codes.add(code.getCode()));
            return Driver.codes(codes);
        });
    }

    @Override
    public CompletableFuture<JsonObject> unsubscribe(JsonObject request) {
        List<MqttTopicFilter> filters = new ArrayList<>();
        request.getAsJsonArray("filters").forEach(filter -> filters.add(MqttTopicFilter.of(filter.getAsString())));
        return client.unsubscribe(Mqtt5Unsubscribe.builder().addTopicFilters(filters).build()).handle((ack, error) -> {
            var found = ack;
            if (error != null && Driver.cause(error) instanceof Mqtt5UnsubAckException refused) {
                found = refused.getMqttMessage();
            } else if (error != null) {
                throw new IllegalStateException(Driver.cause(error));
            }
            JsonArray codes = new JsonArray();
            found.getReasonCodes().forEach(code -> codes.add(code.getCode()));
            return Driver.codes(codes);
        });
    }

    @Override
    public CompletableFuture<JsonObject> reauth() {
        return client.reauth().thenApply(done -> {
            JsonObject found = new JsonObject();
            found.addProperty("proven", scram.proven);
            return found;
        });
    }

    @Override
    public CompletableFuture<JsonObject> disconnect(JsonObject request) {
        JsonObject properties = request.getAsJsonObject("properties");
        var made = Mqtt5Disconnect.builder()
            .reasonCode(Mqtt5DisconnectReasonCode.fromCode(request.get("reason_code").getAsInt()));
        if (properties.has("session_expiry")) made.sessionExpiryInterval(properties.get("session_expiry").getAsLong());
        return client.disconnect(made.build()).thenApply(done -> new JsonObject());
    }
}
