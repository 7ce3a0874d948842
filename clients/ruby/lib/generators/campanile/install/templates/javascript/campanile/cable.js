// <turbo-cable-stream-source> on Campanile's cable: docs/broadcasts.md

const tag = "turbo-cable-stream-source", extended = "actioncable-v1-ext-json";
// identifier: its elements
const wanted = new Map(), changed = new Set();
// identifier: subscribes unanswered; messages are an earlier one's
const asked = new Map();
// A page is told once of a place it prints forever.
const refused = new Set();
let socket, protocol, heardAt, watch, failures = 0, mayReturn;

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
	if (count >= 0) say("unsubscribe", { identifier });
	if (!count) asked.delete(identifier);
	if (!elements[0]) return wanted.delete(identifier);
	if (!protocol) return;
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
	watch = setInterval(() => Date.now() - heardAt > 6500 && lose(), 1e3);
}

function lose() {
	clearInterval(watch);
	socket.onmessage = socket.onclose = null;
	socket.close();
	socket = protocol = null;
	asked.clear();
	wanted.forEach((elements) => elements.forEach((one) => one.live()));
	setTimeout(open, Math.min(3e4, 500 * 1.6 ** failures++) * (0.5 + Math.random()));
}

function hear({ type, identifier, reconnect, ...more }) {
	heardAt = Date.now();
	if (type === "welcome") {
		protocol = socket.protocol;
		wanted.forEach((_, each) => subscribe(each));
	}
	if (type === "ping") {
		failures = 0;
		if (protocol === extended) say("pong");
		// Rails may have passed over one.
		else wanted.forEach((_, each) => asked.get(each) && say("subscribe", { identifier: each }));
	}
	if (reconnect === false) mayReturn = false;
	if (/_sub/.test(type)) asked.set(identifier, protocol === extended && asked.get(identifier) - 1);
	if (!asked.get(identifier)) wanted.get(identifier)?.forEach((one) => one.hear(type, more));
}

["online", "pageshow", "visibilitychange"].map((name) => addEventListener(name, open));

customElements.get(tag) ? console.warn(tag, "is taken: import campanile/cable first") : customElements.define(tag, class extends HTMLElement {
	static observedAttributes = ["channel", "signed-stream-name", "position", "connected"];

	async connectedCallback() {
		// For Turbo, and the page after its preview.
		for (let wait = 99; !window.Turbo || (document.querySelector("[data-turbo-preview]") && wait--); )
			await new Promise((then) => setTimeout(then, 20));
		if (!this.isConnected || this.identifier) return;
		Turbo.connectStreamSource(this);
		const data = { channel: this.getAttribute("channel"), signed_stream_name: this.getAttribute("signed-stream-name") };
		this.stream = nameIn(data.signed_stream_name);
		for (const key in this.dataset) data[key.replace(/[A-Z]+/g, "_$&").toLowerCase()] = this.dataset[key];
		const identifier = (this.identifier = JSON.stringify(data));
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
		if (name === "connected") return this.live(this.isLive);
		if (name === "position") return value && value !== this.marked && this.move(value);
		if (!this.identifier) return;
		this.disconnectedCallback();
		this.connectedCallback();
	}

	live(isLive = false) {
		this.toggleAttribute("connected", (this.isLive = isLive));
	}

	// The page was made here: new, Turbo's copy, or morphed.
	move(position) {
		const { place, identifier } = this, [, epoch, offset] = position.match(/^\+?(.+):(\d+)$/) ?? [];
		this.place = epoch && !refused.has(location + epoch + offset) ? { epoch, offset: +offset } : place;
		if (!identifier) return;
		this.mark();
		if (this.place !== place && (place?.epoch !== epoch || offset < place.offset)) change(identifier);
	}

	// For Turbo's copy, and to see morphs.
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
