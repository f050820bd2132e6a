"""Forecasts of lag, what became of them, and how often such forecasts came true."""

from __future__ import annotations

from sharelag.tables.table import Column, Own, Table, declare
from sharelag.tables.table import Format as F

declare(
    Column("forecast", F.TEXT, "age: of the oldest unfinished record, when due; drain: time until "
           "at most a twentieth of the lag is left"),
)  # fmt: skip

FORECASTS = Table(
    "forecasts", "a forecast of one share partition, and what became of it",
    "group_id topic topic_id partition",
    Own("as_of", "when it was made"),
    "forecast",
    Column("due_at", F.TIME, "when its outcome comes", "DUE"),
    "drain",
    Own("effective_lag", "unfinished offsets when it was made"),
    Column("rate_ms", F.DURATION, "what lag / rate says: of an age, lag then / arrival rate",
           "LAG/RATE"),
    Column("trend_ms", F.DURATION, "what the interval is made around: of an age, what it is now "
           "and grows by, as the rates are; of a drain, lag / rate"),
    Column("low_ms", F.DURATION, "lower end of an interval that should hold 80 % of such "
           "outcomes; null: too few forecasts like it were scored", "FROM"),
    Column("middle_ms", F.DURATION, "as many of such outcomes should lie below it as above it; "
           "null likewise", "ABOUT"),
    Column("high_ms", F.DURATION, "upper end of that interval; null likewise", "TO"),
    Column("actual_ms", F.DURATION, "what came; of a drain, the time until the forecast was due "
           "where it took longer; null: not due, or not known"),
    Column("outcome", F.TEXT, "came true, missed, not known, or no interval; null: not due"),
    Own("reason", "why the outcome is not known"),
    Column("scored_at", F.TIME, "moment of the reading that scored it; null: not due"),
    view="group_id topic partition forecast drain due_at low_ms middle_ms high_ms rate_ms",
)  # fmt: skip

CALIBRATION = Table(
    "calibration", "forecasts of one kind, and how often they came true",
    "forecast",
    Column("scored", F.COUNT, "forecasts with an interval whose outcome is known"),
    Column("came_true", F.COUNT, "of these, how many outcomes lay in the interval"),
    Column("covered", F.RATIO, "came true / scored: 0.8 is what is stated; null: none scored"),
    Column("crps_ms", F.RATIO, "how far off: continuous ranked probability score, by the 10, 50 "
           "and 90 % points (mean); smaller is better", "CRPS-MS"),
    Column("rate_crps_ms", F.RATIO, "the same of lag / rate, on the same forecasts; of a single "
           "number it is the absolute error", "LAG/RATE-CRPS-MS"),
    Column("interval_score_ms", F.RATIO, "interval (Winkler) score of the 80 % intervals (mean)"),
    Column("shown", F.FLAG, "whether it beats lag / rate by the CRPS: otherwise it is not shown"),
    Column("untold", F.COUNT, "due forecasts whose outcome is not known"),
    Column("not_due", F.COUNT, "forecasts whose outcome is not due"),
    view="forecast scored came_true covered crps_ms rate_crps_ms interval_score_ms shown untold "
         "not_due",
)  # fmt: skip
