// Levels in a sign and a word: a colour alone would say nothing to some.

export const MARKS = { ok: "●", note: "◇", unknown: "?", warning: "▲", critical: "■", failed: "✕" };
