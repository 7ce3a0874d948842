# A small Rails app around the files of examples/web/rails, on Debian's Rails 6.1. rails_example.py puts those files, public/ and this one
# into a folder. Here stands what the example leaves to the app, and what the gems importmap-rails and turbo-rails would bring.
require "action_cable/engine"
require "action_controller/railtie"

class Shop < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = false
  config.secret_key_base = "0123456789abcdef" * 8
  config.logger = Logger.new($stdout)
  config.hosts.clear
  config.session_store :cookie_store, key: "shop"
  config.public_file_server.enabled = true
  config.action_cable.url = "#{ENV.fetch("CAMPANILE_URL").sub(/\Ahttp/, "ws")}/cable"
end

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

  # turbo-rails
  def hotwire_native_app? = request.user_agent.to_s.match?(/(Turbo|Hotwire) Native/)

  def turbo_stream_from(name)
    signed = ActiveSupport::MessageVerifier.new(ENV.fetch("SIGNED_STREAM_KEY"), digest: "SHA256", serializer: JSON).generate(name)
    content_tag("turbo-cable-stream-source", nil, channel: "Turbo::StreamsChannel", "signed-stream-name": signed)
  end
end

Rails.application.routes.append do
  resource :session, only: %i[create destroy]
  get "documented/*path", to: "pages#documented"
  get "*path", to: "pages#show"
end
Shop.initialize!

class Current < ActiveSupport::CurrentAttributes
  attribute :user
end

class ApplicationController < ActionController::Base
  User = Struct.new(:id)

  helper RailsGems
  layout -> { session[:layout] || "application" }

  # As Rails 8's generated authentication has the user, or as Devise has them.
  if ENV["SHOP_USER_IN"] == "Current"
    before_action { Current.user = user_of_session }
  else
    helper_method :current_user

    def current_user = user_of_session
  end

  private

  def user_of_session = session[:user_id] && User.new(session[:user_id])
end

class PagesController < ApplicationController
  def documented = render(inline: "<p>Page <%= request.path %></p>", layout: "documented")

  def show
    render(inline: '<% content_for :title, "Orders" %><% content_for :back, "/home" %><p>Page <%= request.path %></p>', layout: true)
  end
end

class SessionsController < ApplicationController
  skip_forgery_protection

  def create
    session[:user_id] = params[:user_id]
    session[:layout] = params[:layout].presence
    head :no_content
  end

  def destroy
    reset_session
    redirect_to "/signed_out", status: :see_other
  end
end

# A test that sees a token end doesn't wait for a quarter of an hour, and a page has its number on a busy machine too. An empty
# SHOP_PATIENCE leaves the example's own.
def replace(holder, name, seconds)
  return if seconds.to_s.empty?

  holder.send(:remove_const, name)
  holder.const_set(name, seconds.to_i)
end

replace(CampanileHelper, :TOKEN_SECONDS, ENV["SHOP_TOKEN_SECONDS"])
[CampanileHelper, CampanileInbox].each { |holder| replace(holder, :PATIENCE, ENV.fetch("SHOP_PATIENCE", "60")) }

run Rails.application
