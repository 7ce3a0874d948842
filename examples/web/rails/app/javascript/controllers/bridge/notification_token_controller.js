// The component `notification-token`: hands the user token to the app, and has it delete its device token before the session
// ends. Outside an app that has the component the bridge loads no controller, and the form is an ordinary form.
import { BridgeComponent } from "@hotwired/hotwire-native-bridge";

// An app that doesn't answer must not keep anybody signed in.
const PATIENCE = 5000;

export default class extends BridgeComponent {
  static component = "notification-token";
  static values = { userToken: String, userId: String };

  connect() {
    super.connect();
    this.send("connect", { userToken: this.userTokenValue, userID: this.userIdValue });
  }

  async signOut(event) {
    if (this.released) return;
    event.preventDefault();
    const form = event.target;
    const { message } = await this.release();
    if (message) window.alert(message);
    this.released = true;
    form.requestSubmit();
  }

  // What the app says: {deleted, message}; the message is for the user, and there is one when they have to know.
  release() {
    return new Promise((resolve) => {
      setTimeout(() => resolve({}), PATIENCE);
      this.send("signOut", {}, (reply) => resolve(reply.data ?? {}));
    });
  }
}
