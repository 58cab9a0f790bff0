// Runs the suite's commands (clients/driver.py) on mqtt.js clients.
'use strict'

const fs = require('node:fs')
const mqtt = require('mqtt')
const readline = require('node:readline')

class Unsupported extends Error {}

// ours -> mqtt.js
const NAMES = {
  payload_format: 'payloadFormatIndicator',
  message_expiry: 'messageExpiryInterval',
  content_type: 'contentType',
  response_topic: 'responseTopic',
  correlation_data: 'correlationData',
  subscription_id: 'subscriptionIdentifier',
  session_expiry: 'sessionExpiryInterval',
  assigned_client_id: 'assignedClientIdentifier',
  server_keep_alive: 'serverKeepAlive',
  request_problem_info: 'requestProblemInformation',
  will_delay: 'willDelayInterval',
  request_response_info: 'requestResponseInformation',
  response_info: 'responseInformation',
  receive_maximum: 'receiveMaximum',
  topic_alias_maximum: 'topicAliasMaximum',
  topic_alias: 'topicAlias',
  maximum_qos: 'maximumQoS',
  retain_available: 'retainAvailable',
  maximum_packet_size: 'maximumPacketSize',
  wildcard_available: 'wildcardSubscriptionAvailable',
  subscription_ids_available: 'subscriptionIdentifiersAvailable',
  shared_available: 'sharedSubscriptionAvailable',
  reason_string: 'reasonString',
  server_reference: 'serverReference'
}
const OURS = Object.fromEntries(Object.entries(NAMES).map(([ours, theirs]) => [theirs, ours]))
const FLAGS = new Set(['payload_format', 'request_problem_info', 'request_response_info'])

// mqtt.js has an object of user properties: the order of different names among each other is lost.
function toUserProperties (pairs) {
  const found = {}
  let last = null
  for (const [name, value] of pairs) {
    if (name in found && name !== last) throw new Unsupported('the order of user properties of different names')
    found[name] = name in found ? [].concat(found[name], value) : value
    last = name
  }
  return found
}

function toTheirs (properties) {
  const found = {}
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === 'user_properties') found.userProperties = toUserProperties(value)
    else if (name === 'correlation_data') found.correlationData = Buffer.from(value, 'base64')
    else found[NAMES[name]] = FLAGS.has(name) ? value === 1 : value
  }
  return found
}

function toOurs (properties) {
  const found = {}
  for (const [theirs, value] of Object.entries(properties || {})) {
    const name = OURS[theirs]
    if (theirs === 'userProperties') {
      found.user_properties = Object.entries(value).flatMap(([key, items]) => [].concat(items).map(item => [key, item]))
    } else if (name === 'correlation_data') found.correlation_data = value.toString('base64')
    else if (name === 'subscription_id') found.subscription_ids = [].concat(value)
    else if (name) found[name] = value === true ? 1 : value === false ? 0 : value
  }
  return found
}

const clients = new Map()

// What is below MQTT, as mqtt.js wants it.
function below (door) {
  const protocol = (door.web ? 'ws' : 'mqtt') + (door.tls ? 's' : '')
  const read = name => door[name] && fs.readFileSync(door[name])
  const found = { protocol, ca: read('authority'), cert: read('certificate'), key: read('key') }
  return door.web ? { ...found, path: door.web } : found
}

function send (line) {
  process.stdout.write(JSON.stringify(line) + '\n')
}

function connect (request, name) {
  const { options, version } = request
  if (options.manual_acks) throw new Unsupported('manual acknowledgement')
  const given = {
    host: request.host,
    port: request.port,
    ...below(options.door),
    protocolVersion: version === 5 ? 5 : 4,
    clientId: options.client_id,
    clean: options.clean_start,
    keepalive: options.keep_alive,
    reconnectPeriod: 0,
    resubscribe: false,
    connectTimeout: 10000
  }
  if (version === 5) given.properties = toTheirs(options.properties)
  if (options.will) {
    const { topic, payload, qos, retain, properties } = options.will
    given.will = { topic, payload: Buffer.from(payload, 'base64'), qos, retain }
    if (version === 5) given.will.properties = toTheirs(properties)
  }
  return new Promise((resolve, reject) => {
    const client = mqtt.connect(given)
    clients.set(name, client)
    let reason = null
    let properties = {}
    client.on('packetreceive', packet => { if (packet.cmd === 'connack') properties = toOurs(packet.properties) })
    client.on('connect', packet => resolve({
      session_present: packet.sessionPresent,
      reason_code: packet.reasonCode || packet.returnCode || 0,
      properties: toOurs(packet.properties)
    }))
    client.on('error', error => reject(Object.assign(error, { properties })))
    client.on('disconnect', packet => {
      reason = packet.reasonCode ?? null
      properties = toOurs(packet.properties)
    })
    client.on('close', () => {
      send({ event: 'closed', client: name, reason, properties: reason === null ? {} : properties })
      reject(new Error('closed before CONNACK'))
    })
    client.on('message', (topic, payload, packet) => send({
      event: 'message',
      client: name,
      topic,
      payload: payload.toString('base64'),
      qos: packet.qos,
      retain: packet.retain,
      dup: packet.dup,
      properties: toOurs(packet.properties)
    }))
  })
}

function publish (client, request) {
  const options = { qos: request.qos, retain: request.retain }
  if (client.options.protocolVersion === 5) options.properties = toTheirs(request.properties)
  const all = request.messages.map(([topic, payload]) => new Promise((resolve, reject) => {
    client.publish(topic, Buffer.from(payload, 'base64'), { ...options, properties: options.properties && { ...options.properties } },
      (error, packet) => {
        if (error && !error.code) reject(error)
        else resolve(error ? error.code : packet?.reasonCode || 0)
      })
  }))
  return Promise.all(all).then(codes => ({ codes }))
}

function subscribe (client, request) {
  const wanted = {}
  for (const item of request.subscriptions) {
    wanted[item.filter] = { qos: item.qos, nl: item.no_local, rap: item.retain_as_published, rh: item.retain_handling }
  }
  const options = client.options.protocolVersion === 5 ? { properties: toTheirs(request.properties) } : {}
  return new Promise((resolve, reject) => {
    client.subscribe(wanted, options, (error, granted, packet) => {
      if (packet && packet.granted) resolve({ codes: packet.granted })
      else if (error) reject(error)
      else resolve({ codes: granted.map(item => item.qos) })
    })
  })
}

function unsubscribe (client, request) {
  return new Promise((resolve, reject) => {
    client.unsubscribe(request.filters, (error, packet) => {
      if (error && !packet) reject(error)
      else resolve({ codes: (packet && packet.granted) || [] })
    })
  })
}

function disconnect (client, request) {
  const options = client.options.protocolVersion === 5
    ? { reasonCode: request.reason_code, properties: toTheirs(request.properties) }
    : {}
  return new Promise(resolve => client.end(false, options, () => resolve({})))
}

function drop (client) {
  client.options.reconnectPeriod = 0
  client.stream.destroy()
  return new Promise(resolve => client.end(true, {}, () => resolve({})))
}

const OPERATIONS = { publish, subscribe, unsubscribe, disconnect, drop }

async function handle (line) {
  const request = JSON.parse(line)
  try {
    const ok = request.op === 'connect'
      ? await connect(request, request.client)
      : await OPERATIONS[request.op](clients.get(request.client), request)
    send({ id: request.id, ok })
  } catch (error) {
    if (error instanceof Unsupported) send({ id: request.id, unsupported: error.message })
    else if (request.op === 'connect' && error.code > 0) send({ id: request.id, refused: error.code, properties: error.properties })
    else send({ id: request.id, error: String(error.stack || error) })
  }
}

readline.createInterface({ input: process.stdin }).on('line', handle).on('close', () => process.exit(0))
