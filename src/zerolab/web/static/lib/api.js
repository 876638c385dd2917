// Requests to the server's JSON API, and a websocket that reconnects.

const BASE = "/api/v1";

/** Name of this page, which the server uses to share search time fairly between pages. */
const PAGE = Math.random().toString(36).slice(2, 12);

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function dataOf(response) {
  let data = null;
  try {
    data = await response.json();
  } catch {
    // The body is not JSON, so the error message uses the status.
  }
  if (!response.ok) {
    throw new ApiError(data?.error ?? `the server responded with status ${response.status}`, response.status);
  }
  return data;
}

async function request(path, options) {
  try {
    const headers = { "x-page": PAGE, ...options.headers };
    return await dataOf(await fetch(BASE + path, { ...options, headers }));
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError("the server is not responding: is zerolab serve still running?", 0);
  }
}

/** Send a GET request, omitting parameters without a value. */
export function get(path, params = {}, signal = undefined) {
  const present = Object.entries(params).filter(([, value]) => value !== undefined && value !== "");
  const query = new URLSearchParams(present).toString();
  return request(query ? `${path}?${query}` : path, { signal });
}

/** Send a POST request with a JSON body. */
export function post(path, body = {}, signal = undefined) {
  const headers = { "content-type": "application/json" };
  return request(path, { method: "POST", body: JSON.stringify(body), headers, signal });
}

/** Send a file. */
export function postFile(path, file) {
  const headers = { "content-type": "application/octet-stream" };
  return request(path, { method: "POST", body: file, headers });
}

const RETRY_PAUSE = 2000; // milliseconds

/** Repeat `work` until the server responds, as long as `isWanted()` is true, and never while `isBusy()` is. */
export async function retry(work, { isWanted, isBusy }) {
  for (;;) {
    await new Promise((done) => setTimeout(done, RETRY_PAUSE));
    if (!isWanted()) return;
    if (isBusy()) continue;
    try {
      await work();
      return;
    } catch (error) {
      if (error.status !== 0) throw error;
    }
  }
}

/**
 * Websocket that reconnects automatically and shows when it is disconnected.
 *
 * `onMessage` receives every message. `onOpen` is called after each connection, so that a page can
 * repeat its requests.
 */
export class Socket {
  constructor(path, { onMessage, onOpen = () => {} }) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.address = `${scheme}//${location.host}${BASE}${path}`;
    this.address += `${path.includes("?") ? "&" : "?"}page=${PAGE}`;
    this.onMessage = onMessage;
    this.onOpen = onOpen;
    this.wait = 500;
    this.isClosed = false;
    this.#connect();
  }

  #connect() {
    if (this.isClosed) return;
    this.socket = new WebSocket(this.address);
    this.socket.addEventListener("open", () => {
      this.wait = 500;
      showConnection(true);
      this.onOpen();
    });
    this.socket.addEventListener("message", (event) => this.onMessage(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => {
      if (this.isClosed) return;
      showConnection(false);
      setTimeout(() => this.#connect(), this.wait);
      this.wait = Math.min(2 * this.wait, 8000);
    });
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** Send a message; return whether the socket was open. */
  send(message) {
    if (!this.isOpen) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  close() {
    this.isClosed = true;
    this.socket.close();
  }
}

function showConnection(isConnected) {
  const notice = document.getElementById("connection");
  notice.hidden = isConnected;
  notice.textContent = isConnected ? "" : "The server is not responding. This page will continue when it does.";
}
