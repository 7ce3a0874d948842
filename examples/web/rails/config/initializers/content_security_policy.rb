# To be added to the app's own config/initializers/content_security_policy.rb.
Rails.application.config.content_security_policy do |policy|
  campanile = ENV.fetch("CAMPANILE_URL", "http://localhost:3001")
  policy.default_src :self
  policy.script_src :self
  policy.style_src :self
  # Calls and streams; then the cable, which an origin with http doesn't include. Turbo fetches its pages from :self.
  policy.connect_src :self, campanile, campanile.sub(/\Ahttp/, "ws")
end
# For the import map and the layout's one inline rule. A visit of Turbo's keeps the policy of the first page, so the nonce stays for a session.
Rails.application.config.content_security_policy_nonce_generator = ->(request) { request.session.id.to_s }
Rails.application.config.content_security_policy_nonce_directives = %w[script-src style-src]
