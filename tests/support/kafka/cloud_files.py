"""Client properties as people get them from those who run Kafka for them."""

#: In each file that is a secret.
SECRET = "s3cr3t-Tr0ub4dor"
_MODULES = "org.apache.kafka.common.security"
_PLAIN = f"{_MODULES}.plain.PlainLoginModule required"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required"

#: Files that Kafka's commands take, by who hands them out.
TAKEN = {
    "Confluent Cloud": f"""# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=127.0.0.1:9092
security.protocol=SASL_SSL
sasl.jaas.config={_PLAIN} username='KEY' password='{SECRET}';
sasl.mechanism=PLAIN
# Required for correctness in Apache Kafka clients prior to 2.6
client.dns.lookup=use_all_dns_ips
# Best practice for higher availability in Apache Kafka clients prior to 3.0
session.timeout.ms=45000
# Best practice for Kafka producer to prevent data loss
acks=all
client.id=ccloud-java-client-0001
# Required connection configs for Confluent Cloud Schema Registry
schema.registry.url=https://psrc.example.com
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=SRKEY:{SECRET}
""",
    "Confluent Platform": f"""security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={_PLAIN} username="KEY" password="{SECRET}";
confluent.monitoring.interceptor.sasl.mechanism=PLAIN
confluent.monitoring.interceptor.sasl.jaas.config={_PLAIN} username="KEY" password="{SECRET}";
interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor
confluent.license=
specific.avro.reader=true
auto.register.schemas=false
""",
    "Azure Event Hubs": f"""bootstrap.servers=mine.servicebus.windows.net:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={_PLAIN} username="$ConnectionString" \\
    password="Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=Root;\\
SharedAccessKey={SECRET}=";
request.timeout.ms=60000
metadata.max.age.ms=180000
schema.registry.url=https://mine.servicebus.windows.net
schema.group=mine
""",
    "Redpanda": f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config={_SCRAM} username="me" password="{SECRET}";
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
value.deserializer=io.confluent.kafka.serializers.KafkaAvroDeserializer
schema.registry.url=https://sr.example.com:30081
bearer.auth.token={SECRET}
""",
    "Amazon MSK with SCRAM": f"""security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={_SCRAM} username="me" password="{SECRET}";
aws.region=eu-west-1
avroRecordType=GENERIC_RECORD
registry.name=mine
metric.reporters=com.example.Reporter
""",
    "a file of several programs": f"""[default]
security.protocol=PLAINTEXT
ssl.truststore.location=/no/such/truststore.jks
ssl.truststore.password={SECRET}
sasl.mechanism=AWS_MSK_IAM
log4j.logger.org.apache.kafka=DEBUG
spring.kafka.properties[schema.registry.url]=https://sr.example.com
topic=orders
{SECRET}
""",
    "Apicurio behind Strimzi": f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={_SCRAM} username="me" password="{SECRET}";
ssl.truststore.type=PKCS12
ssl.truststore.location=/no/such/ca.p12
ssl.truststore.password={SECRET}
apicurio.registry.url=http://apicurio:8080/apis/registry/v3
apicurio.auth.password={SECRET}
""",
}

#: Files that only Java can honour, with a part of what is said of each.
REFUSED = {
    "Amazon MSK with IAM": (
        """security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
""",
        "sasl.client.callback.handler.class cannot be used here: use user name and password",
    ),
    "Azure with a class of one's own": (
        """security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
sasl.login.callback.handler.class=CustomAuthenticateCallbackHandler
""",
        "sasl.login.callback.handler.class names a class that only Java can load",
    ),
    "Aiven": (
        f"""security.protocol=SSL
ssl.protocol=TLS
ssl.keystore.type=PKCS12
ssl.keystore.location=client.keystore.p12
ssl.keystore.password={SECRET}
ssl.key.password={SECRET}
ssl.truststore.location=client.truststore.jks
ssl.truststore.password={SECRET}
""",
        "cannot read ssl.truststore.location=client.truststore.jks",
    ),
    "Kerberos": (
        """security.protocol=SASL_SSL
sasl.kerberos.service.name=kafka
sasl.mechanism=GSSAPI
""",
        "sasl.mechanism=GSSAPI (Kerberos) is not built into this client",
    ),
    "an engine of TLS": (
        "security.protocol=SSL\nssl.engine.factory.class=com.example.Own\n",
        "ssl.engine.factory.class cannot be used here",
    ),
    "a password in two lines": (
        f"""security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={_PLAIN} username="me" password=
"{SECRET}";
""",
        "look for part of a password, on a line that is broken in two",
    ),
}
