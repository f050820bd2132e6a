package org.apache.kafka.common.utils.internals;

/** Programs import all of this package, in which some classes are since 4.4: with it the package is there before 4.3, too. */
final class SinceKafka43 {
}
