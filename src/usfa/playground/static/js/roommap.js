// The room from above: walls, objects, the path walked, and the field of view.

import { colour, sharpened } from "./dom.js";

const KEPT = 400; // points of the path
const SMALLEST = 19; // pixels for a metre of the agent
const MARGIN = 8; // pixels around the room, so that an agent at the wall is fully visible

export class RoomMap {
  constructor(canvas, plan, features, mine) {
    this.canvas = canvas;
    this.plan = plan;
    this.features = features;
    this.mine = mine;
    this.path = [];
    this.pictures = features.map(({ picture }) => picture && Object.assign(new Image(), { src: picture }));
  }

  clear() {
    this.path = [];
  }

  show({ pose, objects }) {
    this.position = { pose, objects };
    this.path.push(pose);
    if (this.path.length > KEPT) this.path.shift();
    this.draw();
  }

  draw() {
    if (!this.position) return;
    const [pen, width, height] = sharpened(this.canvas);
    if (width <= 2 * MARGIN) return; // the page has not been laid out yet
    const scale = (width - 2 * MARGIN) / this.plan.side;
    const at = (x, y) => [MARGIN + x * scale, height - MARGIN - y * scale];
    pen.clearRect(0, 0, width, height);
    this.#walls(pen, at, scale);
    this.#drawPath(pen, at);
    for (const [kind, x, y] of this.position.objects) this.#object(pen, at(x, y), kind, 0.36 * scale);
    this.#agent(pen, at, scale);
  }

  #walls(pen, at, scale) {
    const cell = this.plan.side / this.plan.walls.length;
    pen.fillStyle = colour("quiet");
    this.plan.walls.forEach((row, y) => row.forEach((wall, x) => wall
      && pen.fillRect(...at(x * cell, (y + 1) * cell), cell * scale + 0.5, cell * scale + 0.5)));
  }

  #drawPath(pen, at) {
    pen.strokeStyle = colour(this.mine);
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    const step = 40;
    for (let first = 0; first + 1 < this.path.length; first += step) {
      pen.globalAlpha = 0.12 + (0.6 * first) / KEPT;
      pen.beginPath();
      this.path.slice(first, first + step + 1).forEach(([x, y]) => pen.lineTo(...at(x, y)));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  // Its picture; a disc of its colour until that has arrived.
  #object(pen, [x, y], kind, radius) {
    const picture = this.pictures[kind];
    if (picture?.naturalWidth) {
      const size = (2 * radius) / Math.max(picture.naturalWidth, picture.naturalHeight);
      const [width, height] = [picture.naturalWidth * size, picture.naturalHeight * size];
      pen.drawImage(picture, x - width / 2, y - height / 2, width, height);
      return;
    }
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fillStyle = this.features[kind].colour;
    pen.fill();
  }

  // A triangle of a minimum size, and the field of view in front of it.
  #agent(pen, at, scale) {
    const [x, y, heading] = this.position.pose;
    const [px, py] = at(x, y);
    pen.fillStyle = colour(this.mine);
    pen.globalAlpha = 0.13;
    pen.beginPath();
    pen.moveTo(px, py);
    const side = (this.plan.view * Math.PI) / 360;
    pen.arc(px, py, 3 * scale, -heading - side, -heading + side);
    pen.fill();
    pen.globalAlpha = 1;
    pen.beginPath();
    const size = Math.max(1, SMALLEST / scale);
    for (const [far, turn] of [[0.5, 0], [0.36, 2.5], [0.15, Math.PI], [0.36, -2.5]])
      pen.lineTo(...at(x + size * far * Math.cos(heading + turn), y + size * far * Math.sin(heading + turn)));
    pen.closePath();
    pen.fill();
    pen.strokeStyle = colour("card");
    pen.lineWidth = size > 1 ? 1 : 1.5;
    pen.stroke();
  }
}
