// One colour and one pattern for every state of an offset; colour never carries the meaning alone.
// The four states of KIP-932 differ in lightness too, so that they stay apart for every kind of colour vision.
// Unfinished work stands out: unread is solid, waiting for another delivery is warm, finished recedes.

/** Kinds of offsets. The first six are Kafka's delivery states by their number on the wire. */
export const KINDS = [
  { name: "available", words: "Available", pattern: "dashes", means: "released or timed out, waiting for another delivery" },
  { name: "acquired", words: "Acquired", pattern: "slash", means: "locked by a member; never persisted by Kafka" },
  { name: "acknowledged", words: "Acknowledged", pattern: "dots", means: "done" },
  { name: "archiving", words: "Archiving", pattern: "rows", means: "on its way to a dead letter queue" },
  { name: "archived", words: "Archived", pattern: "cross", means: "rejected, at the delivery limit, or a gap" },
  { name: "tx_pending", words: "Transaction pending", pattern: "bars", means: "acknowledged in an open transaction" },
  { name: "unknown", words: "Unknown", pattern: "backslash", means: "acquired, or never persisted: the topic does not say which" },
  { name: "unread", words: "Unread", pattern: "plain", means: "beyond the window: never delivered, as far as the topic shows" },
  { name: "finished", words: "Complete", pattern: "specks", means: "acknowledged or archived; the start offset has not passed it yet" },
  { name: "other", words: "Another state", pattern: "plus", means: "of a newer Kafka than sharelag knows" },
  { name: "window", words: "In the window", pattern: "mesh", means: "this table has no state of each offset" },
];
/** An available offset whose next delivery is its last: at the limit of deliveries Kafka archives it. */
export const LAST = { name: "last", words: "Next delivery is the last", means: "one delivery below the limit: if it fails again, Kafka archives the record" };
export const AVAILABLE = 0, ACQUIRED = 1, UNKNOWN = 6, UNREAD = 7, FINISHED = 8, OTHER = 9, WINDOW = 10;

const FILLS = {
  light: ["#E69F00", "#A8502D", "#CFE6DB", "#B25D8C", "#4A1A5C", "#8C7BD6", "#8A93A3", "#0072B2", "#BFDCCF", "#D43D2A", "#C9CFD8"],
  dark: ["#E69F00", "#B4603C", "#1F3B33", "#C77BA5", "#7A3F93", "#9B8CE0", "#7C8698", "#56B4E9", "#2B4F44", "#E0604A", "#454C57"],
};

const LAST_FILLS = { light: "#B3001B", dark: "#FF4D5E" };

/** Tiles of eight by eight: lines as x0, y0, x1, y1; dots as x, y, radius. */
export const PATTERNS = {
  plain: {},
  slash: { lines: [[-2, 2, 2, -2], [0, 8, 8, 0], [6, 10, 10, 6]] },
  dots: { dots: [[2, 2, 1.2], [6, 6, 1.2]] },
  rows: { lines: [[0, 2, 8, 2], [0, 6, 8, 6]] },
  cross: { lines: [[0, 0, 8, 8], [0, 8, 8, 0]] },
  bars: { lines: [[2, 0, 2, 8], [6, 0, 6, 8]] },
  backslash: { lines: [[-2, 6, 2, 10], [0, 0, 8, 8], [6, -2, 10, 2]] },
  dashes: { lines: [[0, 4, 3, 4]] },
  specks: { dots: [[4, 4, 1]] },
  plus: { lines: [[4, 1, 4, 7], [1, 4, 7, 4]] },
  mesh: { lines: [[0, 4, 8, 4], [4, 0, 4, 8]] },
};

/** The fill of a kind in a theme; with forced colours there are patterns only. */
export function fillOf(kind, theme) {
  return theme === "forced" ? "Canvas" : FILLS[theme][kind];
}

/** The colour of the mark of `LAST`. */
export function lastFill(theme) {
  return theme === "forced" ? "Highlight" : LAST_FILLS[theme];
}

/** The ink of a kind's pattern. */
export function inkOf(kind, theme) {
  if (theme === "forced") return "CanvasText";
  return luminance(FILLS[theme][kind]) > 0.22 ? "rgba(0,0,0,.5)" : "rgba(255,255,255,.6)";
}

const LADDERS = {
  light: ["#E6EAF0", "#C6D8EA", "#9ABAD9", "#6E98C4", "#3F6CA3", "#22427A", "#1B1F4B"],
  dark: ["#2A2F38", "#2F4468", "#3B5B8A", "#4D78A9", "#74A0C8", "#A6C8E2", "#E6F2FB"],
};

/** The colours of a number from zero to the largest, in even steps of lightness. */
export function ladder(theme) {
  return theme === "forced" ? LADDERS.light.map(() => "CanvasText") : LADDERS[theme];
}

/** Relative luminance of #rrggbb (WCAG). */
export function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
