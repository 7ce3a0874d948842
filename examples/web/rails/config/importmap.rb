# To be added to the app's own config/importmap.rb.
pin "@hotwired/hotwire-native-bridge", to: "@hotwired--hotwire-native-bridge.js" # bin/importmap pin @hotwired/hotwire-native-bridge
# Copies in vendor/javascript, not addresses of Campanile: while a module can't be loaded, a page runs none of its JavaScript.
pin "campanile/badge"
pin "campanile/badge_controller"
