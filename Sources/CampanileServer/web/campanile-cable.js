// <turbo-cable-stream-source> on Campanile's cable: docs/broadcasts.md

const tag = "turbo-cable-stream-source", extended = "actioncable-v1-ext-json";
// identifier: its elements
const wanted = new Map(), changed = new Set();
// identifier: subscriptions unanswered; messages are an earlier one's
const asked = new Map();
// A page is told once of a place it prints forever.
const refused = new Set();
let socket, isWelcome, heardAt, watch, failures = 0, mayReturn;

const say = (command, more) => socket.send(JSON.stringify({ command, ...more }));

function nameIn(signed) {
	try {
		const text = atob(signed.replace(/--\w+$/, "").replace(/-/g, "+").replace(/_/g, "/"));
		return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (one) => one.charCodeAt())));
	} catch {}
}

function change(identifier) {
	if (!changed.size) queueMicrotask(() => (changed.forEach(subscribe), changed.clear(), open()));
	changed.add(identifier);
}

function subscribe(identifier) {
	const elements = [...wanted.get(identifier)], count = asked.get(identifier);
	if (!elements[0]) wanted.delete(identifier);
	if (!isWelcome) return;
	if (count >= 0) say("unsubscribe", { identifier });
	if (!count) asked.delete(identifier);
	if (!elements[0]) return;
	asked.set(identifier, (count ?? 0) + 1);
	// One may lack what another has.
	const [place] = elements.flatMap((one) => one.place ?? []).sort((a, b) => a.offset - b.offset);
	say("subscribe", { identifier, history: place && { streams: { [elements[0].stream]: place } } });
}

function open() {
	if (socket || !wanted.size || !mayReturn) return;
	const url = new URL(document.querySelector("meta[name=action-cable-url]")?.content ?? "/cable", document.baseURI);
	url.protocol = url.protocol.replace("http", "ws");
	socket = new WebSocket(url, [extended, "actioncable-v1-json"]);
	socket.onmessage = ({ data }) => hear(JSON.parse(data));
	socket.onclose = lose;
	heardAt = Date.now();
	watch = setInterval(() => Date.now() - heardAt > 6_500 && lose(), 1_000);
}

function lose() {
	clearInterval(watch);
	socket.onmessage = socket.onclose = null;
	socket.close();
	socket = isWelcome = null;
	asked.clear();
	wanted.forEach((elements) => elements.forEach((one) => one.live()));
	setTimeout(open, Math.min(30_000, 500 * 1.6 ** failures++) * (0.5 + Math.random()));
}

function hear({ type, identifier, reconnect, ...more }) {
	heardAt = Date.now();
	if (type === "welcome") {
		isWelcome = true;
		wanted.forEach((_, each) => subscribe(each));
	} else if (type === "ping") {
		failures = 0;
		if (socket.protocol === extended) say("pong");
	} else if (type === "disconnect") {
		mayReturn = reconnect !== false;
	} else {
		if (/_sub/.test(type)) asked.set(identifier, asked.get(identifier) - 1);
		if (!asked.get(identifier)) wanted.get(identifier)?.forEach((one) => one.hear(type, more));
	}
}

["online", "pageshow", "visibilitychange"].map((name) => addEventListener(name, open));

customElements.get(tag) ? console.warn(tag, "is taken: import campanile/cable first") : customElements.define(tag, class extends HTMLElement {
	static observedAttributes = ["channel", "signed-stream-name", "position", "connected"];

	async connectedCallback() {
		// For Turbo, and the page after its preview.
		for (let wait = 99; !window.Turbo || (document.querySelector("html[data-turbo-preview]") && wait--); )
			await new Promise((then) => setTimeout(then, 20));
		if (!this.isConnected || this.identifier) return;
		Turbo.connectStreamSource(this);
		const data = Object.entries(this.dataset).map(([key, value]) => [key.replace(/[A-Z]+/g, "_$&").toLowerCase(), value]);
		const channel = this.getAttribute("channel"), signed_stream_name = this.getAttribute("signed-stream-name");
		this.stream = nameIn(signed_stream_name);
		const identifier = (this.identifier = JSON.stringify({ channel, signed_stream_name, ...Object.fromEntries(data) }));
		wanted.set(identifier, (wanted.get(identifier) ?? new Set()).add(this));
		mayReturn = true;
		this.mark();
		change(identifier);
	}

	disconnectedCallback() {
		const { identifier } = this, others = wanted.get(identifier);
		if (!others) return;
		this.identifier = null;
		Turbo.disconnectStreamSource(this);
		others.delete(this);
		if (!others.size) change(identifier);
		// Last: it connects what moved.
		this.live();
	}

	attributeChangedCallback(name, _, value) {
		// A morph takes it, a copy has it.
		if (name === "connected") {
			this.live(this.isLive);
		} else if (name === "position") {
			if (value && value !== this.marked) this.move(value);
		} else if (this.identifier) {
			this.disconnectedCallback();
			this.connectedCallback();
		}
	}

	live(isLive = false) {
		this.isLive = isLive;
		this.toggleAttribute("connected", isLive);
	}

	// The page was made here: new, Turbo's copy, or morphed.
	move(position) {
		const { place, identifier } = this, [, epoch, offset] = position.match(/^\+?(.+):(\d+)$/) ?? [];
		this.place = epoch && !refused.has(location + epoch + offset) ? { epoch, offset: +offset } : null;
		if (!identifier) return;
		this.mark();
		if (this.place && (place?.epoch !== epoch || offset < place.offset)) change(identifier);
	}

	// For Turbo's copy; unlike a server's, to see morphs.
	mark(place = this.place) {
		if (place) this.setAttribute("position", (this.marked = `+${place.epoch}:${place.offset}`));
	}

	hear(type, { message, epoch, offset }) {
		const { place } = this, next = epoch && { epoch, offset };
		if (/_sub/.test(type)) {
			this.live(type[0] === "c");
			this.begun = next;
			place || this.mark((this.place = next));
		} else if (type === "reject_history") {
			refused.add(location + place?.epoch + place?.offset);
			this.mark((this.place = this.begun));
			this.dispatchEvent(new Event("campanile:missed", { bubbles: true }));
		} else if (message) {
			if (epoch === place?.epoch && offset <= place?.offset) return;
			this.place = next;
			this.dispatchEvent(new MessageEvent("message", { data: message }));
			if (!next) return this.removeAttribute("position");
			// After Turbo's render:
			setTimeout(() => this.isConnected && this.place?.offset >= offset && this.mark(next), 100);
		}
	}
});
