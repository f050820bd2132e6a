// Every text of the views in sight: its contrast to the paper it stands on (WCAG), and what it is.
() => {
  const parts = (text) => {
    const found = text.match(/[\d.]+/g).map(Number);
    return text.includes("srgb") ? found.map((value, n) => (n < 3 ? value * 255 : value)) : found;
  };
  const light = (text) => {
    const [r, g, b] = parts(text).slice(0, 3).map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0.5) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const inSight = (element) => element.checkVisibility() && !element.closest("svg, .sl-unseen, option");
  return [...document.querySelectorAll(".sl *")].filter((element) => hasText(element) && inSight(element)).map((element) => {
    const [ink, ground] = [light(getComputedStyle(element).color), light(paper(element))];
    return [(Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05), `${element.className} ${element.innerText.slice(0, 40)}`];
  });
};
