require "test_helper"
require "front"
require "rails_app"

# The delivery methods, in a Rails app with ActiveJob.
if ENV["NOTICED"]
  $LOAD_PATH.unshift(File.join(ENV["NOTICED"], "lib"))
  require "noticed"
  Shop.initialize!
else
  require "active_record"
  require "active_job"
  require "noticed_stand_in"
  Shop.initialize!
end

ActiveRecord::Schema.define do
  create_table(:users) { |t| t.string :name }
  create_table :noticed_events do |t|
    t.string :type
    t.references :record, polymorphic: true
    t.text :params
    t.integer :notifications_count
    t.timestamps
  end
  create_table :noticed_notifications do |t|
    t.string :type
    t.references :event
    t.references :recipient, polymorphic: true
    t.datetime :read_at
    t.timestamps
  end
end

class OrderNotifier < Noticed::Event
  deliver_by :campanile do |config|
    config.format = -> { { title: "Order #{params.stringify_keys["number"]}", deep_link: "/orders/#{params.stringify_keys["number"]}" } }
  end
end

class SaleNotifier < Noticed::Event
  bulk_deliver_by(:campanile) { |config| config.format = :shown }

  def shown = { title: "Sale #{params.stringify_keys["name"]}", "push" => false }
end

class WrongNotifier < Noticed::Event
  deliver_by(:campanile) { |config| config.format = -> { { title: "" } } }
end

class NamedNotifier < Noticed::Event
  deliver_by(:campanile) { |config| config.format = -> { { title: "Hello", external_id: "of the app" } } }
end

class PassingNotifier < Noticed::Ephemeral
  deliver_by(:campanile) { |config| config.format = -> { { title: "Typing to #{recipient.name}" } } }
  bulk_deliver_by(:campanile) { |config| config.format = -> { { title: "Typing", push: false } } }
end

class NoticedTest < RailsTest
  def setup
    super
    @alice, @bob = User.create!(name: "Alice"), User.create!(name: "Bob")
  end

  def test_each_recipient_gets_one_with_what_the_notifier_says
    event = OrderNotifier.with(number: 7).deliver([@alice, @bob])
    run_jobs
    [@alice, @bob].zip(event.notifications.order(:id)).each do |user, notification|
      found = entries(user).first
      assert_equal ["Order 7", "/orders/7", "noticed:#{notification.id}"], [found.title, found.deep_link, found.external_id]
    end
  end

  def test_a_job_that_runs_again_creates_nothing_twice
    OrderNotifier.with(number: 8).deliver([@alice])
    enqueued = enqueue_of_delivery
    2.times { ActiveJob::Base.execute(enqueued) }
    assert_equal ["Order 8"], titles(@alice)
    # And when the key is forgotten: the name is taken for good.
    notification = Noticed::Notification.last
    campanile.notify(@alice, title: "Another", external_id: "noticed:#{notification.id}x")
    assert_raises(::Campanile::ExternalIdTaken) { campanile.notify(@alice, title: "Order 8", external_id: "noticed:#{notification.id}") }
    notification.event.delivery_methods[:campanile].constant.new.then do |job|
      job.arguments = ["another method's key", notification]
      job.instance_variable_set(:@notification, notification)
      job.instance_variable_set(:@event, notification.event)
      job.instance_variable_set(:@config, notification.event.delivery_methods[:campanile].config)
      assert_nil job.deliver
    end
    assert_equal 2, entries(@alice).size
  end

  def test_bulk_reaches_those_who_have_none_and_passes_over_a_deleted_recipient
    event = SaleNotifier.with(name: "of shoes").deliver([@alice, @bob, gone = User.create!(name: "Gone")])
    User.where(id: gone.id).delete_all
    campanile.notify(@alice, title: "Sale of shoes", external_id: "noticed:event:#{event.id}")
    run_jobs
    assert_equal [["Sale of shoes"], ["Sale of shoes"]], [titles(@alice), titles(@bob)]
  end

  def test_another_name_that_is_taken_is_told
    campanile.notify(@alice, title: "Another", external_id: "of the app")
    NamedNotifier.with({}).deliver([@alice])
    assert_raises(::Campanile::ExternalIdTaken) { run_jobs }
  end

  def test_while_the_server_is_away_the_job_comes_back
    ::Campanile.client = client(url: "http://127.0.0.1:#{World.free_port}")
    OrderNotifier.with(number: 9).deliver([@alice])
    ActiveJob::Base.execute(enqueue_of_delivery)
    assert_operator enqueued_jobs.last[:at], :>, Time.now.to_f
    ::Campanile.client = campanile
    run_jobs
    assert_equal ["Order 9"], titles(@alice)
  end

  def test_what_is_wrong_fails_the_job_with_the_fields
    WrongNotifier.with({}).deliver([@alice])
    refused = assert_raises(::Campanile::Invalid) { run_jobs }
    assert_equal ["title"], refused.errors.map { |error| error["field"] }
  end

  def test_bulk_is_one_call_for_all
    Front.open do |front|
      ::Campanile.client = client(url: front.url)
      event = SaleNotifier.with(name: "of shoes").deliver([@alice, @bob])
      run_jobs
      assert_equal 1, front.requests.size
      [@alice, @bob].each { |user| assert_equal [["Sale of shoes", "noticed:event:#{event.id}"]], entries(user).map { |one| [one.title, one.external_id] } }
    end
  end

  def test_ephemeral_ones_have_the_jobs_key
    PassingNotifier.with({}).deliver([@alice, @bob])
    jobs = deliveries
    2.times { jobs.each { |job| ActiveJob::Base.execute(job) } }
    assert_equal ["Typing", "Typing to Alice"], titles(@alice).sort
    assert_equal ["Typing", "Typing to Bob"], titles(@bob).sort
  end

  private

  def entries(user) = campanile.inbox(user).list.notifications

  # The enqueued jobs of delivery methods, in ActiveJob's serialized form; noticed's own job, which enqueues them, is run first.
  def deliveries
    perform_enqueued_jobs(only: Noticed::EventJob) if defined?(Noticed::EventJob)
    enqueued_jobs.map { |job| job.slice("job_class", "job_id", "queue_name", "arguments", "executions", "exception_executions", "locale", "timezone") }.tap { clear_enqueued_jobs }
  end

  def enqueue_of_delivery = deliveries.last
end
