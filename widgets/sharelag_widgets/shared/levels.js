// Levels as a sign and a word: not everyone can tell the colours apart.

export const MARKS = { ok: "●", note: "◇", unknown: "?", warning: "▲", critical: "■", failed: "✕" };
