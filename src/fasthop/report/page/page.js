// Draws the page's charts and switches its language and colours. What is shown stands in the JSON element "data".
(() => {
  "use strict";
  const { figures, titles } = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const live = document.getElementById("live");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const COLORS = ["paper", "ink", "faint", "line", "baseline", "better", "worse", "same", "alone",
    ...Array.from({ length: 8 }, (_, place) => `series${place}`)];
  // A colour half way to the paper's, both as #rrggbb.
  const lighter = (color, paper) => "#" + [1, 3, 5].map((place) =>
    Math.round((parseInt(color.slice(place, place + 2), 16) + parseInt(paper.slice(place, place + 2), 16)) / 2)
      .toString(16).padStart(2, "0")).join("");
  const drawn = new Map(); // chart's element -> {key of its state, the view}
  let theme = "auto";

  const shade = () => (theme === "auto" ? (dark.matches ? "dark" : "light") : theme);

  // What "$ink" and the like stand for in this theme and at this width.
  function values(width) {
    const style = getComputedStyle(root);
    const found = Object.fromEntries(COLORS.map((name) => [`$${name}`, style.getPropertyValue(`--${name}`).trim()]));
    for (let place = 0; place < 8; place++)
      found[`$light${place}`] = lighter(found[`$series${place}`], found.$paper);
    const narrow = width < 500;
    return { ...found, $columns: Math.max(narrow ? 2 : 3, Math.floor(width / 210)), $label_limit: narrow ? 128 : 240,
      $label: narrow ? "short" : "label" };
  }

  // A copy of a specification with those put in; a domain holds names of recipes, which stay as they are.
  function themed(tree, known) {
    if (typeof tree === "string") return Object.hasOwn(known, tree) ? known[tree] : tree;
    if (Array.isArray(tree)) return tree.map((entry) => themed(entry, known));
    if (tree === null || typeof tree !== "object") return tree;
    return Object.fromEntries(
      Object.entries(tree).map(([key, entry]) => [key, key === "domain" ? entry : themed(entry, known)]));
  }

  function config(known, font) {
    const labels = { labelColor: known.$faint, titleColor: known.$faint, labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal", aria: false };
    return {
      background: null, font, view: { stroke: null }, text: { fontSize: 12 },
      axis: { ...labels, gridColor: known.$line, domainColor: known.$line, tickColor: known.$line, titlePadding: 8 },
      axisY: { labelColor: known.$ink },
      legend: { ...labels, labelColor: known.$ink, labelLimit: 210, symbolSize: 90, offset: 14, padding: 0 },
    };
  }

  async function draw(chart) {
    if (!chart.clientWidth) return; // hidden: drawn when it is shown
    const known = values(chart.clientWidth);
    const state = JSON.stringify([known, chart.clientWidth]);
    if (drawn.get(chart)?.state === state) return;
    drawn.get(chart)?.result?.finalize();
    const entry = { state };
    drawn.set(chart, entry);
    const { spec, datasets } = figures[chart.id];
    const font = getComputedStyle(document.body).fontFamily;
    const whole = { ...themed(spec, known), width: Math.floor(chart.clientWidth), datasets,
      autosize: { type: "fit-x", contains: "padding" } };
    entry.result = await vegaEmbed(chart, whole, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: config(known, font),
      tooltip: (handler, event, item, value) => event && point(event.clientX, event.clientY, value),
    });
    chart.querySelector("svg")?.setAttribute("aria-hidden", "false");
    chart.dataset.drawn = root.dataset.shade;
  }

  const drawAll = () => Promise.all([...document.querySelectorAll(".chart")].map(draw));

  // The figures at a place of the window; none for a value without text.
  function point(x, y, value) {
    tip.hidden = typeof value !== "string" || !value;
    if (tip.hidden) return;
    tip.textContent = value;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18}px`;
  }

  // The marks of a chart that have figures, from left to right within a recipe, in the order of the table.
  const marks = (chart) => [...chart.querySelectorAll("[role='graphics-symbol'][aria-label]")]
    .filter((mark) => mark.getAttribute("aria-label"));

  function read(chart, step) {
    const all = marks(chart);
    if (!all.length) return;
    const before = all.findIndex((mark) => mark.hasAttribute("data-read"));
    const place = step === "first" ? 0 : step === "last" ? all.length - 1
      : Math.max(0, Math.min(all.length - 1, before + step));
    all[before]?.removeAttribute("data-read");
    all[place].setAttribute("data-read", "");
    const said = all[place].getAttribute("aria-label");
    live.textContent = said;
    const box = all[place].getBoundingClientRect();
    point(box.left + box.width / 2, box.top + box.height / 2, said);
  }

  const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: "first", End: "last" };
  for (const chart of document.querySelectorAll(".chart")) {
    chart.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return stop(chart);
      if (!(event.key in STEPS) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      read(chart, STEPS[event.key]);
    });
    chart.addEventListener("blur", () => stop(chart));
    chart.addEventListener("mouseleave", () => point(0, 0, ""));
  }

  function stop(chart) {
    chart.querySelector("[data-read]")?.removeAttribute("data-read");
    point(0, 0, "");
  }

  function press(kind, value) {
    for (const button of document.querySelectorAll(`button[data-set-${kind}]`)) {
      if (kind === "lang") continue; // each language's page has its own button pressed
      button.setAttribute("aria-pressed", String(button.getAttribute(`data-set-${kind}`) === value));
    }
  }

  function setTheme(value) {
    theme = value;
    press("theme", value);
    shadeNow();
  }

  function shadeNow() {
    root.dataset.shade = print.matches ? "light" : shade();
    return drawAll();
  }

  function setLanguage(value, focus) {
    for (const page of document.querySelectorAll("[data-language]")) page.hidden = page.dataset.language !== value;
    const page = document.querySelector(`[data-language="${value}"]`);
    root.lang = page.lang;
    root.dataset.lang = value;
    document.title = titles[value];
    if (focus) page.querySelector(`button[data-set-lang="${value}"]`).focus();
    drawAll();
  }

  function setMeasure(value) {
    for (const radio of document.querySelectorAll(".switch input")) radio.checked = radio.value === value;
    for (const figure of document.querySelectorAll("[data-choice]")) figure.hidden = figure.dataset.choice !== value;
    drawAll();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.setLang) setLanguage(button.dataset.setLang, true);
    if (button?.dataset.setTheme) setTheme(button.dataset.setTheme);
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest(".switch")) setMeasure(event.target.value);
  });
  dark.addEventListener("change", shadeNow);
  print.addEventListener("change", shadeNow);
  // On paper there is nothing to open: the tables are open there, and as they were afterwards.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 120); });

  if (document.querySelector("[data-choice]")) setMeasure("time");
  shadeNow().then(() => { root.dataset.ready = "true"; });
})();
