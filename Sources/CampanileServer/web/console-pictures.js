// Pictures of the last hour: a bar for each minute, and a slider over them that reads out one of them.

const space = "http://www.w3.org/2000/svg";
const step = 4; // of the picture's own units, for a minute
const height = 40;
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const amount = new Intl.NumberFormat("en");

function shape(name, attributes) {
  const node = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

/** The bars as one path. A minute of which nothing is known has none; 0 is a line on the ground. */
function bars(values, highest) {
  return values.map((value, minute) => {
    if (value === null) return "";
    const tall = value === 0 ? 1 : Math.max(2, Math.round((value / highest) * (height - 2)));
    return `M${minute * step} ${height}v${-tall}h${step - 1}v${tall}z`;
  }).join("");
}

/** One series as a picture; `draw` is given its numbers whenever there are newer ones. */
export function makePicture({ element }, { label, tone }) {
  const svg = shape("svg", { viewBox: `0 0 ${60 * step} ${height}`, preserveAspectRatio: "none", role: "img" });
  const path = shape("path", { class: "bars" });
  const mark = shape("rect", { class: "mark", width: step, height, y: 0 });
  svg.append(mark, path);
  const total = element("b", {});
  const slider = element("input", { type: "range", min: 0, max: 59, step: 1, value: 59, "aria-label": `${label}, minute by minute` });
  const reading = element("p", { class: "reading", "aria-hidden": "true" }); // the slider says the same
  const node = element("figure", { class: `picture ${tone}` },
    element("figcaption", {}, label, " ", total), element("div", { class: "plot" }, svg, slider), reading);
  let values = [];
  let first = 0;

  const minuteAt = (index) => clock.format(new Date(first + index * 60_000));

  /** What is read out of the minute that the slider stands at. */
  function read() {
    const index = Number(slider.value);
    const value = values[index] ?? null;
    const text = value === null ? "not known" : amount.format(value);
    const when = index === 59 ? "this minute" : minuteAt(index);
    reading.textContent = `${when}: ${text}`;
    slider.setAttribute("aria-valuetext", reading.textContent);
    mark.setAttribute("x", index * step - 0.5);
  }
  slider.addEventListener("input", read);

  function describe(known, sum, highest) {
    if (known.length === 0) return `${label}: nothing is known yet.`;
    if (sum === 0) return `${label}: none in the last ${known.length} minutes.`;
    const at = minuteAt(values.indexOf(highest));
    return `${label}: ${amount.format(sum)} in the last ${known.length} minutes, at most ${amount.format(highest)} in one, at ${at}.`;
  }

  /** Numbers for 60 minutes, null where nothing is known, and the time of the first of them. */
  function draw(numbers, firstMinute) {
    values = numbers;
    first = Date.parse(firstMinute);
    const known = values.filter((value) => value !== null);
    const sum = known.reduce((left, right) => left + right, 0);
    const highest = Math.max(1, ...known);
    path.setAttribute("d", bars(values, highest));
    total.textContent = amount.format(sum);
    svg.setAttribute("aria-label", describe(known, sum, highest));
    node.classList.toggle("quiet-hour", sum === 0);
    read();
  }

  return { node, draw };
}
