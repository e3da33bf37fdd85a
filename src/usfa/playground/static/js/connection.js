// The socket: it comes back by itself, and says how it is.

const FIRST_WAIT = 400, LONGEST_WAIT = 5000, FULL_WAIT = 8000, PING_EVERY = 4000, PATIENCE = 12000; // milliseconds
const FULL = 1013;

export class Connection {
  // handlers: open(hello), note(note), moment(moment, pictures), state(name, words)
  constructor(handlers) {
    this.handlers = handlers;
    this.wait = FIRST_WAIT;
    this.pings = 0;
    this.connect();
    setInterval(() => this.#mind(), PING_EVERY);
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.#retryNow());
  }

  connect() {
    const address = new URL("socket", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.heard = performance.now();
    this.socket.onmessage = ({ data }) => this.#receive(data);
    this.socket.onclose = (event) => this.#lost(event);
  }

  send(message) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  #receive(data) {
    this.heard = performance.now();
    if (data instanceof ArrayBuffer) {
      this.handlers.moment(...unpack(data));
      return;
    }
    const note = JSON.parse(data);
    if (note.type === "hello") {
      this.wait = FIRST_WAIT;
      this.handlers.state("open", "Connected");
      this.handlers.open(note);
    } else if (note.type !== "pong") {
      this.handlers.note(note);
    }
  }

  #lost(event) {
    const full = event.code === FULL;
    const wait = full ? FULL_WAIT : this.wait;
    this.handlers.state("lost", full ? event.reason : "Connection lost. Trying again …");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), wait);
    this.wait = Math.min(this.wait * 1.6, LONGEST_WAIT);
  }

  #retryNow() {
    if (this.socket.readyState === WebSocket.CLOSED) {
      clearTimeout(this.timer);
      this.connect();
    }
  }

  // A socket can die without a word: whoever has not answered for a while is given up.
  #mind() {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (performance.now() - this.heard > PATIENCE && !document.hidden) this.socket.close();
    else this.send({ type: "ping", id: this.pings++ });
  }
}

// 4 bytes with the length of the JSON, the JSON, and the pictures behind it.
export function unpack(data) {
  const length = new DataView(data).getUint32(0, true);
  const moment = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  const pictures = moment.players.map(({ picture }) =>
    picture ? new Blob([new Uint8Array(data, 4 + length + picture.start, picture.length)], { type: picture.type }) : null);
  return [moment, pictures];
}
