// Tells a native app the number that an element shows, whoever changes it.

// Calls `send` with the number as soon as there is one, and at every change. Gives what ends it.
export function watchBadge(element, send) {
	let last;
	const look = () => {
		const text = element.dataset.count ?? element.textContent;
		const count = parseInt(text) || 0;
		// An element that has had no number yet isn't at 0: an app would empty its notification centre.
		if (count !== last && (last >= 0 || /\d/.test(text))) send((last = count));
	};
	const observer = new MutationObserver(look);
	observer.observe(element, { childList: true, characterData: true, subtree: true, attributes: true });
	look();
	return () => observer.disconnect();
}

// iOS, Android.
export function postBadge(count) {
	window.webkit?.messageHandlers?.badge?.postMessage({ count });
	window.badge?.postMessage?.(JSON.stringify({ count }));
}

// Elements that show the number as well. With an address or a token they are campanile-badge.js's, with a badge controller its own.
const bare = "[data-notification-badge='']:not([data-src], [data-token], [data-token-src], [data-controller*=badge])";

const morphs = ["turbo:morph", "turbo:morph-element"];

function fillBare(count, element) {
	for (const node of document.querySelectorAll(bare)) {
		if (node === element) continue;
		node.dataset.count = count; // for other controllers
		node.textContent = count > 9 ? "9+" : count || "";
		node.classList.toggle("hidden", (node.hidden = !count));
	}
}

const watching = (Base, send) => class extends Base {
	connect() {
		super.connect();
		// The bridge connects again without disconnecting, when the page is shown in place of a native screen.
		this.stop?.();
		this.stop = watchBadge(this.element, (count) => send(count, this));
	}
	disconnect() {
		this.stop?.();
		super.disconnect();
	}
};

// For Stimulus.
export const badgeController = (Base) => class extends watching(Base, (count, self) => self.tellBadge(count)) {
	#count;
	#fill = () => this.#count >= 0 && fillBare(this.#count, this.element);
	tellBadge(count) {
		this.#count = count;
		postBadge(count);
		this.#fill();
	}
	connect() {
		super.connect();
		// They empty it.
		for (const name of morphs) addEventListener(name, this.#fill);
	}
	disconnect() {
		for (const name of morphs) removeEventListener(name, this.#fill);
		super.disconnect();
	}
};

// For the bridge.
export const badgeBridge = (Base) => class extends watching(Base, (count, self) => self.send("update", { count })) {
	static component = "badge";
};
