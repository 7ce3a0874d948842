# In an app that the generator was run in, by install_test.rb: signs in, looks at the pages, and signs out. It stands for what an app has of its
# own: a session, and `current_user`.
require "minitest/assertions"

class ApplicationController
  Person = Struct.new(:id)

  def current_user = session[:user_id] && Person.new(session[:user_id])
end

ActionController::Base.allow_forgery_protection = false # as in a test environment

class SessionsController < ApplicationController
  def create = session[:user_id] = params[:user_id]

  def destroy = reset_session
end

Rails.application.routes.append { resource :session, only: %i[create destroy] }
Rails.application.reload_routes!
Rails.application.config.hosts.clear if Rails.application.config.respond_to?(:hosts)

class Pages
  include Minitest::Assertions
  attr_accessor :assertions

  NATIVE = "Shop/1.0 Hotwire Native iOS;"
  BROWSER = "Mozilla/5.0"
  USER = ENV.fetch("TEST_USER")

  def initialize
    @assertions = 0
    @app = ActionDispatch::Integration::Session.new(Rails.application)
    @app.host! "localhost"
  end

  def get(path, agent: BROWSER, **headers) = @app.get(path, headers: { "User-Agent" => agent, **headers }) && @app.response

  def number = @app.response.body[%r{<campanile-badge[^>]*>([^<]*)</campanile-badge>}, 1]

  def run
    assert_equal 401, get("/notifications").status
    assert_equal 401, (@app.post("/campanile_token") && @app.response.status)
    @app.post("/session", params: { user_id: USER })
    one, two = %w[One Two].map { |title| Campanile.notify(USER, title: title, deep_link: "/orders/#{title}") }
    look
    cable
    changes(one, two)
    tokens
    away
    unset
    @app.delete("/session")
    assert_equal 401, get("/notifications").status
    puts "the pages are right"
  end

  def look
    page = get("/notifications")
    assert_equal 200, page.status, page.body
    assert_equal ["Two", "One"], page.body.scan(%r{<a href="/orders/\w+">(\w+)</a>}).flatten
    assert_equal "2", number
    assert_equal "no-store", page.headers["Cache-Control"]
    refute_includes page.body, 'class="native-app"'
    assert_equal "2", get("/notifications", agent: NATIVE, "Sec-Purpose": "prefetch") && number, "a prepared page clears nothing"
    assert_includes get("/notifications", agent: NATIVE).body, 'class="native-app"'
    assert_equal "0", number, "an app's look clears"
  end

  # The page's cable is where config/cable.yml has broadcasts go.
  def cable
    refute_includes get("/notifications").body, "action-cable-url"
    settings = ActionCable.server.config
    former, settings.cable = settings.cable, { "adapter" => "campanile" }
    assert_includes get("/notifications").body, %(<meta name="action-cable-url" content="#{Campanile.configuration.url.sub("http", "ws")}/cable")
    settings.cable = former
  end

  def changes(one, two)
    stream = { "Accept" => "text/vnd.turbo-stream.html" }
    @app.patch("/notifications/#{one.id}", headers: stream)
    assert_includes @app.response.body, %(<turbo-stream action="replace" target="notification_#{one.id}">)
    @app.delete("/notifications/#{two.id}", headers: stream)
    @app.delete("/notifications/#{two.id}", headers: stream)
    assert_includes @app.response.body, %(<turbo-stream action="remove" target="notification_#{two.id}">)
    @app.post("/notifications/mark_all_read", params: { up_to: one.id })
    assert_equal [303, "http://localhost/notifications"], [@app.response.status, @app.response.headers["Location"]]
    assert_equal 0, Campanile.inbox(USER).badge.unread_count
  end

  def tokens
    @app.post("/campanile_token")
    answer = JSON.parse(@app.response.body)
    assert_equal [USER, "no-store"], [answer["user_id"], @app.response.headers["Cache-Control"]]
    assert_equal 0, Campanile::Inbox.new(answer["token"], http: Campanile.client.http).badge.count
  end

  # A setting is missing, as before the server's first start: pages go on without the number.
  def unset
    ENV.delete("CAMPANILE_JWT_SECRET").then do |secret|
      page = get("/notifications")
      assert_equal [503, nil], [page.status, number]
      ENV["CAMPANILE_JWT_SECRET"] = secret
    end
  end

  def away
    url, Campanile.configuration.url = Campanile.configuration.url, "http://127.0.0.1:1"
    Campanile.client = nil
    page = get("/notifications")
    assert_equal 503, page.status
    assert_includes page.body, "reached just now"
    Campanile.configuration.url = url
    Campanile.client = nil
  end
end

Pages.new.run
