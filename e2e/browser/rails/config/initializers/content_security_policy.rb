Rails.application.config.content_security_policy do |policy|
  policy.default_src :self
  policy.script_src :self
  policy.style_src :self
  policy.connect_src :self
end
# For the import map and the layout's one inline rule. A visit of Turbo's keeps the policy of the first page, so the nonce stays for a session.
Rails.application.config.content_security_policy_nonce_generator = ->(request) { request.session.id.to_s }
Rails.application.config.content_security_policy_nonce_directives = %w[script-src style-src]
