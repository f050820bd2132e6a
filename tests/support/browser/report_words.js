// Which words of at most 20 characters lie in two lines of a table?
() => {
  const found = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(".sr-table")) continue;
    for (const word of node.data.matchAll(/[^\s\-/]{2,20}/gu)) {
      if (/\S/.test((node.data[word.index - 1] ?? " ") + (node.data[word.index + word[0].length] ?? " "))) continue;
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size > 1) found.push(word[0]);
    }
  }
  return found;
}
