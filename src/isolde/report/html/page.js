"use strict";
(() => {
  const root = document.documentElement;
  for (const button of document.querySelectorAll(".theme")) button.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Figures: a transaction lights up in the graph and on the timeline, an arrow lights its two operations up and says why it is there.
  for (const figure of document.querySelectorAll("figure[data-figure]")) {
    const says = figure.querySelector(".says");
    const clear = () => {
      for (const one of figure.querySelectorAll(".on")) one.classList.remove("on");
      says.textContent = says.dataset.hint;
      says.classList.remove("told");
    };
    const light = (query) => { for (const one of figure.querySelectorAll(query)) one.classList.add("on"); };
    const show = (part) => {
      clear();
      if (part.dataset.t !== undefined) light(`.txn[data-t="${part.dataset.t}"]`);
      if (part.dataset.arrow === undefined) return;
      light(`.arrow[data-arrow="${part.dataset.arrow}"]`);
      light(`.txn[data-t="${part.dataset.from}"]`);
      light(`.txn[data-t="${part.dataset.to}"]`);
      for (const op of part.dataset.ops.split(" ")) if (op) light(`.op[data-op="${op}"]`);
      says.textContent = part.dataset.says;
      says.classList.add("told");
    };
    for (const part of figure.querySelectorAll(".txn, .arrow")) {
      part.addEventListener("mouseenter", () => show(part));
      part.addEventListener("focus", () => show(part));
      part.addEventListener("mouseleave", clear);
      part.addEventListener("blur", clear);
    }
    figure.addEventListener("keydown", (event) => { if (event.key === "Escape") { clear(); document.activeElement.blur(); } });
  }

  // Interleavings: back and forth by buttons and arrow keys.
  for (const stepper of document.querySelectorAll(".stepper")) {
    const rows = [...stepper.querySelectorAll("tbody tr[data-step]")];
    const states = [...stepper.querySelectorAll(".states section")];
    const where = stepper.querySelector(".where");
    let at = rows.length;
    const draw = () => {
      rows.forEach((row, place) => {
        row.classList.toggle("later", place >= at);
        row.classList.toggle("now", place === at - 1 && at < rows.length + 1);
      });
      let last = null;
      for (const state of states) if (state.dataset.after === "first" || Number(state.dataset.after) < at) last = state;
      for (const state of states) state.hidden = state !== last;
      where.textContent = `${at} of ${rows.length} steps`;
    };
    const go = (way) => {
      at = { first: 0, back: Math.max(0, at - 1), next: Math.min(rows.length, at + 1), last: rows.length }[way];
      draw();
    };
    for (const button of stepper.querySelectorAll("button[data-go]")) button.addEventListener("click", () => go(button.dataset.go));
    stepper.addEventListener("keydown", (event) => {
      const way = { ArrowRight: "next", ArrowDown: "next", ArrowLeft: "back", ArrowUp: "back", Home: "first", End: "last" }[event.key];
      if (way) { go(way); event.preventDefault(); }
    });
    draw();
  }

  // A link to what is folded opens it.
  const unfold = () => {
    const part = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    for (let one = part; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    part?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // On paper, what is folded is shown.
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
})();
