require "test_helper"
require "front"
require "logger"
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "campanile/rails"

# turbo-rails' helper and type, made again from its documentation: Debian has none.
Mime::Type.register "text/vnd.turbo-stream.html", :turbo_stream

module Turbo
  module StreamsHelper
    def turbo_stream_from(*streamables, **attributes)
      tag.turbo_cable_stream_source(channel: "Turbo::StreamsChannel", "signed-stream-name": streamables.join(":"), **attributes)
    end
  end
end

class Board < Rails::Application
  config.root = Dir.mktmpdir("campanile-board-").tap { |folder| Minitest.after_run { FileUtils.rm_rf(folder) } }
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "only for tests"
  config.hosts.clear
  routes.append do
    get "/api" => "api#show"
    get "/plain" => "plain#show"
    %w[show without].each { |action| get action => "pages##{action}" }
    post "again" => "pages#again"
    get "up" => "rails/health#show"
  end
end

Board.initialize!

class ApplicationController < ActionController::Base
  helper Turbo::StreamsHelper
end

class PagesController < ApplicationController
  # What an app's own callback broadcasts is after a page's place.
  before_action { Front.inside&.call }

  def show = render(inline: '<%= turbo_stream_from "room", 7 %>')
  def without = render(inline: '<%= turbo_stream_from "room", position: nil, data: { a: 1 } %>')
  def again = render(inline: '<%= turbo_stream_from "room" %>', status: :unprocessable_entity)
end

class PlainController < ApplicationController
  skip_before_action :campanile_take_position
  def show = render(inline: '<%= turbo_stream_from "room" %>')
end

# As Rails has it since 7.1.
class Rails::HealthController < ActionController::Base
  def show = render(html: "up")
end

class ApiController < ActionController::API
  def show = render(json: ApplicationController.render(inline: '<%= turbo_stream_from "room" %>').to_json)
end

class Front
  class << self
    attr_accessor :inside
  end
end

class PagePositionTest < CampanileTest
  HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
  TURBO = "text/vnd.turbo-stream.html, text/html, application/xhtml+xml"

  def setup
    super
    # A series begins with its first broadcast.
    @before = campanile.broadcast([{ stream: "room", data: "x", id: SecureRandom.uuid }]) && campanile.broadcast_position
    Campanile.configuration.broadcast_key = World.broadcast_key
    Campanile.client = campanile
  end

  def teardown
    Campanile.configuration.broadcast_key = Campanile.client = Front.inside = nil
  end

  def page(path = "/show", accept: HTML, method: :get, **headers)
    session = ActionDispatch::Integration::Session.new(Board)
    session.process(method, path, headers: { "Accept" => accept, **headers })
    @status = session.response.status
    session.response.body
  end

  def position(...) = page(...)[/ position="([^"]*)"/, 1]

  # Answers what the block does, and how many calls for a place it made.
  def asked(*orders)
    Front.open(*orders) do |front|
      Campanile.client = client(url: front.url)
      return yield, front.requests.count { |request| request.start_with?("GET /broadcasts/position ") }
    end
  end

  def test_a_page_says_where_the_broadcasts_were_before_its_action_and_the_apps_callbacks
    Front.inside = -> { campanile.broadcast([{ stream: "room", data: "x" }]) }
    assert_equal @before, position
    refute_equal @before, campanile.broadcast_position
  end

  def test_the_element_keeps_its_attributes_and_a_position_that_it_is_given_holds
    assert_includes page, %(<turbo-cable-stream-source channel="Turbo::StreamsChannel" signed-stream-name="room:7" position="#{@before}">)
    assert_equal [nil, true], [position("/without"), page("/without").include?('data-a="1"')]
  end

  def test_a_form_that_is_shown_again_has_one
    assert_equal [@before, 422], [position("/again", accept: TURBO, method: :post), @status]
  end

  def test_each_page_asks_once_and_what_is_no_page_does_not
    assert_equal [@before, 1], asked { position }
    assert_equal [@before, 1], asked { position("/show", "Sec-Fetch-Dest" => "document") }
    assert_equal [nil, 0], asked { position("/show", "Sec-Fetch-Dest" => "image") }
    assert_equal [nil, 0], asked { position("/show", accept: "application/json") }
    assert_equal [nil, 0], asked { position("/show", method: :head) }
    assert_equal [nil, 0], asked { position("/plain") }
  end

  def test_probes_ask_for_no_place
    [nil, "", "*/*"].each { |accept| assert_equal [nil, 0], asked { position("/show", accept: accept) } }
    assert_equal ["up", 0], asked { page("/up") }
  end

  def test_what_is_rendered_outside_a_page_has_none
    assert_equal [nil, 200, 0], asked { [position("/api"), @status] }.flatten
  end

  def test_without_a_key_nobody_is_asked
    Campanile.configuration.broadcast_key = nil
    assert_equal [nil, 0], asked { position }
  end

  def test_a_page_goes_without_where_the_server_hangs_and_waits_a_fifth_of_a_second
    start = now
    assert_equal [nil, 1], asked(:silent) { position }
    assert_includes 0.2..1.5, now - start
  end

  # Net::HTTP waits as long for each part of an answer.
  def test_a_page_waits_no_longer_for_an_answer_that_comes_in_parts
    start = now
    assert_equal [nil, 1], asked(:drip) { position }
    assert_includes 0.2..1.5, now - start
  end

  def test_a_call_for_a_place_that_takes_too_long_says_so
    Front.open(:drip) do |front|
      assert_raises(Campanile::Unreachable) { client(url: front.url).broadcast_position(timeout: 0.2) }
    end
  end

  def test_a_page_goes_without_where_there_is_no_server_or_it_refuses
    Campanile.client = client(url: "http://127.0.0.1:1")
    assert_equal [nil, 200], [position, @status]
    assert_equal [nil, 1], asked([:refuse, 503]) { position }
    Campanile.client = client(broadcast_key: World.key)
    assert_equal [nil, 200], [position, @status]
  end

  def test_a_connection_that_the_server_has_ended_costs_no_page_its_place
    Front.open do |front|
      Campanile.client = client(url: front.url)
      assert_equal [@before, 1], [position, front.connections]
      front.leave
      assert_equal [@before, 2], [position, front.connections]
    end
  end

  def test_the_place_is_no_action
    assert_equal %w[again show without], PagesController.action_methods.to_a.sort
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
