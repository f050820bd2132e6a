"""The recording that has what Kafka said at the end of each chapter of its story."""

from sharelag.inputs.recorded import folder_of

CAPTURE = folder_of("chapters")
