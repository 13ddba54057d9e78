// Hovering or focusing a point shows its words; arrow keys go from point to point.
"use strict";
for (const plot of document.querySelectorAll(".plot")) {
  const place = (point) => Number(point.id.match(/\d+$/)?.[0] ?? Infinity);
  const points = [...plot.querySelectorAll(".point")].sort((a, b) => place(a) - place(b));
  if (!points.length) continue;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  plot.append(tip);
  const words = new Map(points.map((point) => [point, point.querySelector("title").textContent]));
  for (const point of points) point.querySelector("title").remove(); // else two tips would show
  const centre = (point) => {
    // The marker itself: bars of an interval are paths, and reach further to one side.
    const mark = point.querySelector("use") ?? point.querySelector("path");
    const box = mark.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  };
  const hide = () => {
    tip.hidden = true;
    plot.querySelector(".shown")?.classList.remove("shown");
  };
  const show = (point) => {
    hide();
    const frame = plot.getBoundingClientRect();
    const [x, y] = centre(point);
    tip.textContent = words.get(point);
    tip.hidden = false;
    const half = tip.offsetWidth / 2;
    tip.style.left = Math.min(Math.max(x - frame.x, half), frame.width - half) + "px";
    tip.style.top = y - frame.y + "px";
    tip.classList.toggle("below", y - frame.y < tip.offsetHeight + 20);
    point.classList.add("shown");
  };
  plot.addEventListener("pointermove", (event) => {
    const apart = (point) => {
      const [x, y] = centre(point);
      return Math.hypot(x - event.clientX, y - event.clientY);
    };
    const nearest = points.reduce((best, point) => (apart(point) < apart(best) ? point : best));
    if (apart(nearest) < 22) show(nearest);
    else hide();
  });
  plot.addEventListener("pointerleave", hide);
  points.forEach((point, at) => {
    point.setAttribute("tabindex", at ? "-1" : "0");
    point.addEventListener("focus", () => show(point));
    point.addEventListener("blur", hide);
    point.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      const next = points[(at + step + points.length) % points.length];
      point.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
