// Which texts of a report are cut, leave their chart, or lie over others?
() => {
  const found = [];
  const said = (one) => one.textContent.trim().slice(0, 60);
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1.5;
  for (const chart of document.querySelectorAll(".sr-chart")) {
    const paper = chart.querySelector(".main-svg")?.getBoundingClientRect();
    if (!paper) { found.push(["not drawn", chart.textContent.slice(0, 60)]); continue; }
    if (paper.right > document.documentElement.clientWidth + 1) found.push(["chart wider than the page", paper.width]);
    for (const text of chart.querySelectorAll(".main-svg text")) {
      const box = text.getBoundingClientRect();
      if (!text.textContent.trim() || !box.width || getComputedStyle(text).opacity === "0") continue;
      if (box.left < paper.left - 1 || box.right > paper.right + 1 || box.top < paper.top - 1 || box.bottom > paper.bottom + 1)
        found.push(["leaves its chart", said(text), Math.round(box.right - paper.right), Math.round(paper.top - box.top)]);
    }
    const legend = chart.querySelector(".legend")?.getBoundingClientRect();
    const told = [...chart.querySelectorAll(".sr-finding, .sr-fact")];
    for (const one of told) {
      const box = one.getBoundingClientRect();
      if (one.scrollWidth > one.clientWidth + 1 || box.right > document.documentElement.clientWidth) found.push(["cut", said(one)]);
      if (legend && over(box, legend)) found.push(["legend over", said(one)]);
      if (over(box, paper)) found.push(["chart over", said(one)]);
    }
    if (!told.length) found.push(["no headline", chart.dataset.chart]);
    const ticks = [...chart.querySelectorAll(".xtick text, .ytick text")].map((one) => one.getBoundingClientRect());
    if (legend && ticks.some((one) => over(one, legend))) found.push(["legend over a tick", said(chart.querySelector(".legend"))]);
    const scene = chart.querySelector(".cartesianlayer .bg, .bglayer .bg")?.getBoundingClientRect();
    if (legend && scene && over(scene, legend)) found.push(["legend over the plot", said(chart.querySelector(".legend"))]);
    const notes = [...chart.querySelectorAll(".annotation-text-g")];
    notes.forEach((one, n) => notes.slice(n + 1).forEach((other) => {
      if (over(one.getBoundingClientRect(), other.getBoundingClientRect())) found.push(["notes overlap", said(one), said(other)]);
    }));
  }
  return found;
}
