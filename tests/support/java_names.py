"""Every setting of the Kafka 4.4.0 consumer, admin client and producer, by what becomes of it here.

A test against the real Kafka checks that the list is whole.
"""

from pathlib import Path

#: Settings whose value reaches our client.
UNDERSTOOD = {
    "check.crcs": "true",
    "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
    "client.id": "tests-id",
    "client.rack": "rack-7",
    "connections.max.idle.ms": "540001",
    "fetch.max.bytes": "52428801",
    "fetch.max.wait.ms": "501",
    "fetch.min.bytes": "2",
    "max.partition.fetch.bytes": "1048577",
    "metadata.max.age.ms": "300001",
    "receive.buffer.bytes": "65537",
    "reconnect.backoff.max.ms": "1001",
    "reconnect.backoff.ms": "51",
    "request.timeout.ms": "30001",
    "retry.backoff.max.ms": "1002",
    "retry.backoff.ms": "101",
    "sasl.mechanism": "PLAIN",
    "sasl.oauthbearer.scope": "scope-7",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/7",
    "sasl.oauthbearer.client.credentials.client.id": "id-7",
    "sasl.oauthbearer.client.credentials.client.secret": "secret-7",
    "security.protocol": "PLAINTEXT",
    "send.buffer.bytes": "131073",
    "socket.connection.setup.timeout.ms": "10001",
    "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "ssl.endpoint.identification.algorithm": "HTTPS",
    "ssl.key.password": "password-7",
    "ssl.keystore.certificate.chain": "chain-7",
    "ssl.keystore.key": "key-7",
    "ssl.keystore.password": "password-8",
    "ssl.truststore.certificates": "certificates-7",
}

#: Settings of which any value will do here, most of them numbers: 7.
_NUMBERS = (Path(__file__).parents[1] / "data/java-settings-7.txt").read_text("utf-8").split()

#: Settings that change nothing for who only reads: with values as people have them.
IGNORED_BY_A_READER = {
    **dict.fromkeys(_NUMBERS, "7"),
    "auto.offset.reset": "by_duration:PT1H",
    "interceptor.classes": "com.example.Own",
    "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    "log4j.rootLogger": "WARN",
    "metric.reporters": "com.example.Own",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    "partitioner.class": "com.example.Own",
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.login.class": "com.example.Own",
    "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    "security.providers": "com.example.Own",
    "ssl.truststore.password": "changeit",
    "ssl.truststore.type": "JKS",
    "ssl.keystore.type": "JKS",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "value.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
}

#: Leaving these out would mean something else.
REFUSED = (
    "config.providers",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.jwt.retriever.class",
    "ssl.engine.factory.class",
)

#: Tested with what belongs to them.
ELSEWHERE = (
    "bootstrap.servers",
    "sasl.jaas.config",
    "ssl.keystore.location",
    "ssl.truststore.location",
)

#: Of the JWT bearer grant.
ASSERTION = {
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.assertion.claim.aud": "audience-7",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "301",
    "sasl.oauthbearer.assertion.claim.iss": "issuer-7",
    "sasl.oauthbearer.assertion.claim.jti.include": "true",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "61",
    "sasl.oauthbearer.assertion.claim.sub": "sub-7",
    "sasl.oauthbearer.assertion.file": "/tmp/assertion-7",
    "sasl.oauthbearer.assertion.private.key.file": "/tmp/key-7",
    "sasl.oauthbearer.assertion.private.key.passphrase": "passphrase-7",
    "sasl.oauthbearer.assertion.template.file": "/tmp/template-7",
}
