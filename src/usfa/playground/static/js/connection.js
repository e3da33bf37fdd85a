// The socket: it reconnects by itself and reports its state.

const FIRST_WAIT = 400, LONGEST_WAIT = 5000, FULL_WAIT = 8000, PING_EVERY = 4000, TIMEOUT = 12000; // milliseconds
const FULL = 1013;

export class Connection {
  // handlers: open(hello), message(message), frame(frame, pictures), state(name, text)
  constructor(handlers) {
    this.handlers = handlers;
    this.wait = FIRST_WAIT;
    this.pings = 0;
    this.connect();
    setInterval(() => this.#checkAlive(), PING_EVERY);
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.#retryNow());
  }

  connect() {
    const address = new URL("socket", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.lastMessage = performance.now();
    this.socket.onmessage = ({ data }) => this.#receive(data);
    this.socket.onclose = (event) => this.#lost(event);
  }

  send(message) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  #receive(data) {
    this.lastMessage = performance.now();
    if (data instanceof ArrayBuffer) {
      this.handlers.frame(...unpack(data));
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "hello") {
      this.wait = FIRST_WAIT;
      this.handlers.state("open", "Connected");
      this.handlers.open(message);
    } else if (message.type !== "pong") {
      this.handlers.message(message);
    }
  }

  #lost(event) {
    const full = event.code === FULL;
    const wait = full ? FULL_WAIT : this.wait;
    this.handlers.state("lost", full ? event.reason : "Connection lost. Reconnecting …");
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

  // A socket can die without an event: close it if no message has arrived for a while.
  #checkAlive() {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    if (performance.now() - this.lastMessage > TIMEOUT && !document.hidden) this.socket.close();
    else this.send({ type: "ping", id: this.pings++ });
  }
}

// 4 bytes with the length of the JSON, the JSON, and the pictures.
export function unpack(data) {
  const length = new DataView(data).getUint32(0, true);
  const frame = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  const pictures = frame.players.map(({ picture }) =>
    picture ? new Blob([new Uint8Array(data, 4 + length + picture.start, picture.length)], { type: picture.type }) : null);
  return [frame, pictures];
}
