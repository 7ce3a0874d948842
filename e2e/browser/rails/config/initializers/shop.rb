# What the gems importmap-rails and turbo-rails would bring, which Debian doesn't have, and how the tests want the app.

# importmap-rails: config/importmap.rb, and the tags that its helper renders.
class ImportMap
  attr_reader :imports

  def initialize(text)
    @imports = {}
    instance_eval(text)
  end

  def pin(name, to: "#{name}.js") = @imports[name] = "/assets/#{to}"
end

module RailsGems
  def javascript_importmap_tags
    map = ImportMap.new(File.read(Rails.root.join("config/importmap.rb")))
    nonce = content_security_policy_nonce
    safe_join([
      content_tag(:script, { imports: map.imports }.to_json.html_safe, type: "importmap", nonce: nonce),
      content_tag(:script, 'import "application"'.html_safe, type: "module", nonce: nonce)
    ])
  end

  def turbo_stream_from(name)
    signed = ActiveSupport::MessageVerifier.new(Campanile.configuration.signed_stream_key, digest: "SHA256", serializer: JSON).generate(name)
    content_tag("turbo-cable-stream-source", nil, channel: "Turbo::StreamsChannel", "signed-stream-name": signed)
  end
end

Rails.application.config.action_cable.url = "#{Campanile.configuration.url.sub(/\Ahttp/, "ws")}/cable"

# A test that sees a token end doesn't wait for a quarter of an hour, and a page has its number on a busy machine too. An empty
# SHOP_PATIENCE leaves the gem's own.
Campanile.configure do |campanile|
  seconds = ENV["SHOP_TOKEN_SECONDS"].to_s
  campanile.user_token_seconds = seconds.to_i unless seconds.empty?
  patience = ENV.fetch("SHOP_PATIENCE", "60")
  campanile.page_timeout = campanile.layout_timeout = patience.to_i unless patience.empty?
end
