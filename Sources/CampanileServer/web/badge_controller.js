// Tells a native app the number that an element shows, whoever changes it.

// Calls `send` now and at every change. Gives what ends it.
export function watchBadge(element, send) {
	let last;
	const look = () => {
		const count = parseInt(element.dataset.count ?? element.textContent) || 0;
		if (count !== last) send((last = count));
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

const watching = (Base, send) => class extends Base {
	connect() {
		super.connect();
		this.stop = watchBadge(this.element, (count) => send(count, this));
	}
	disconnect() {
		this.stop?.();
		super.disconnect();
	}
};

// For Stimulus.
export const badgeController = (Base) => watching(Base, postBadge);

// For the bridge.
export const badgeBridge = (Base) => class extends watching(Base, (count, self) => self.send("update", { count })) {
	static component = "badge";
};
