// The component `notification-token`: hands the app a fresh user token, and has it delete its device token before the session
// ends. Outside an app that has the component the bridge loads no controller, and the form is an ordinary form.
import { BridgeComponent } from "@hotwired/hotwire-native-bridge";

// Longer than the app waits: up to 20 seconds for a token, and then for its server. An app that doesn't answer must not keep
// anybody signed in.
const PATIENCE = 30000;

export default class extends BridgeComponent {
  static component = "notification-token";
  static values = { src: String };

  // Runs again without disconnect() when a native screen gives way to the page.
  connect() {
    super.connect();
    this.handed = this.handed || (() => document.visibilityState === "visible" && !this.isReleasing && this.hand());
    // A token lives for minutes: when the app comes to the foreground, what it has may be over.
    document.addEventListener("visibilitychange", this.handed);
    // While the user is being signed out, the session that says who they are is about to end.
    if (!this.isReleasing) this.hand();
  }

  disconnect() {
    document.removeEventListener("visibilitychange", this.handed);
    super.disconnect();
  }

  // Who the user is, the session says, and not the page: Turbo shows pages out of its cache, and another tab may have signed in
  // somebody else.
  async hand() {
    if (document.documentElement.hasAttribute("data-turbo-preview")) return;
    try {
      const answer = await fetch(this.srcValue, { method: "POST", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) return; // 401: nobody is signed in
      const { token: userToken, user_id: userID } = await answer.json();
      if (this.element.isConnected) this.send("connect", { userToken, userID });
    } catch (error) {
      console.warn("There is no user token for the app.", error);
    }
  }

  async signOut(event) {
    if (this.released) return;
    event.preventDefault();
    if (this.isReleasing) return;
    this.isReleasing = true;
    await this.hand();
    const { message } = await this.release();
    if (message) window.alert(message);
    this.released = true;
    event.target.requestSubmit();
  }

  // What the app says: {deleted, message}; the message is for the user, and there is one when they have to know.
  release() {
    return new Promise((resolve) => {
      setTimeout(() => resolve({ message: "Notifications may go on coming to this device." }), PATIENCE);
      this.send("signOut", {}, (reply) => resolve(reply.data ?? {}));
    });
  }
}
