// The component `badge`: the app gets `update` {count} when the element's number changes.
import { BridgeComponent } from "@hotwired/hotwire-native-bridge";
import { badgeBridge } from "campanile/badge_controller";

export default badgeBridge(BridgeComponent);
