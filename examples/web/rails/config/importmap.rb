# To be added to the app's own config/importmap.rb.
url = ENV.fetch("CAMPANILE_URL", "http://localhost:3001")
pin "@hotwired/hotwire-native-bridge", to: "@hotwired--hotwire-native-bridge.js" # bin/importmap pin @hotwired/hotwire-native-bridge
pin "campanile/badge", to: "#{url}/assets/campanile-badge.js"
pin "campanile/badge_controller", to: "#{url}/assets/badge_controller.js"
