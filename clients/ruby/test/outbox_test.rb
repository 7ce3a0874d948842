require "test_helper"
require "minitest/mock"
require "front"
require "rails_app"
require "rails/generators"
require "generators/campanile/outbox/outbox_generator"

Shop.initialize!

# The table that the generator's migration makes.
Dir.mktmpdir do |folder|
  Campanile::Generators::OutboxGenerator.start(["--quiet"], destination_root: folder)
  load Dir[File.join(folder, "db/migrate/*_create_campanile_outbox.rb")].first
  CreateCampanileOutbox.suppress_messages { CreateCampanileOutbox.new.change }
end

ActiveRecord::Schema.define do
  create_table(:users)
  create_table :messages do |t|
    t.references :recipient
    t.string :subject
    t.datetime :read_at
  end
end

class Message < ActiveRecord::Base
  include Campanile::Notifiable
  belongs_to :recipient, class_name: "User"
  notifies(:recipient, read: :read_at) { { title: subject } }
end

class OutboxTest < RailsTest
  Outbox = Campanile::Outbox
  DrainJob = Campanile::DrainJob

  def teardown
    super
    Outbox::Row.delete_all
  end

  def test_what_is_committed_is_sent_and_what_is_rolled_back_never
    Outbox::Row.transaction { Outbox.notify(user, title: "Committed") }
    Outbox::Row.transaction do
      Outbox.notify(user, title: "Rolled back")
      raise ActiveRecord::Rollback
    end
    run_jobs
    assert_equal ["Committed"], titles(user)
    assert_equal 0, Outbox::Row.count
  end

  def test_rows_are_sent_in_order
    9.times { |number| Outbox.notify(user, title: number.to_s) }
    assert_equal 9, Outbox.drain
    assert_equal ("0".."8").to_a, titles(user)
  end

  def test_every_kind_of_call_can_wait
    made = campanile.notify(user, title: "Wrong", external_id: "#{user} 1")
    others = Array.new(101) { |number| "#{user}-#{number}" }
    Outbox.edit(made, user: user, title: "Right")
    Outbox.notify_all(others, title: "Many", external_id: "#{user} many", push: false)
    assert_equal 2, Outbox.drain
    assert_equal [["Right"], ["Many"]], [titles(user), titles(others.last)]
    Outbox.withdraw(made, user: user)
    Outbox.withdraw(made, user: user)
    Outbox.withdraw(external_id: "#{user} many")
    assert_equal 3, Outbox.drain
    assert_equal [[], [], []], [titles(user), titles(others.first), titles(others.last)]
    assert_raises(ArgumentError) { Outbox.withdraw }
  end

  def test_numbers_and_reads_can_wait
    made = own.notify(user, title: "Hello")
    Outbox.give_badge(user, count: 2, sequence: 1)
    Outbox.reads(user, [made], badge: { count: 1, sequence: 2 })
    assert_equal 2, Outbox.drain(client: own)
    badge = own.inbox(user).badge
    assert_equal [1, 0], [badge.count, badge.unread_count]
  end

  def test_many_reads_are_a_row_for_each_hundred_and_the_number_comes_with_the_last
    names = Array.new(101) { |number| "#{user}-#{number}" }
    rows = Outbox.reads(user, external_ids: names, badge: { count: 0, sequence: 1 })
    assert_equal [{ "external_ids" => names.first(100) }, { "external_ids" => names.last(1), "badge" => { "count" => 0, "sequence" => 1 } }],
                 rows.map { |row| JSON.parse(row.body) }
    assert_equal [{ "ids" => [] }], Outbox.reads(user, []).map { |row| JSON.parse(row.body) }
    assert_raises(ArgumentError) { Outbox.reads(user) }
  end

  def test_changes_without_callbacks_can_wait
    ::Campanile.client = own
    alice = User.create!
    messages = Array.new(3) { |number| Message.create!(recipient: alice, subject: number.to_s) }
    run_jobs
    # Marks these read, and tells it in the same transaction.
    Message.transaction do
      ids = Message.where(recipient: alice, read_at: nil).where.not(id: messages[0].id).ids
      Message.where(id: ids).update_all(read_at: Time.now)
      assert_empty enqueued_jobs, "update_all tells nobody"
      Outbox.reads(alice, external_ids: ids.map { |id| Message.campanile_external_id(id) }, badge: { count: 1, sequence: 1 })
    end
    run_jobs
    shown = own.inbox(alice).list
    assert_equal [{ "0" => false, "1" => true, "2" => true }, 1], [shown.notifications.to_h { |one| [one.title, one.read?] }, shown.badge.count]
    # Deletes the rest.
    Message.transaction do
      ids = Message.where(recipient: alice).ids
      Message.where(id: ids).delete_all
      ids.each { |id| Outbox.withdraw(external_id: Message.campanile_external_id(id)) }
      Outbox.give_badge(alice, count: 0, sequence: 2)
    end
    run_jobs
    shown = own.inbox(alice).list
    assert_equal [[], 0], [shown.notifications, shown.badge.count]
  end

  def test_a_drain_that_is_killed_after_it_sent_creates_nothing_twice
    row = Outbox.notify(user, title: "Once")
    2.times { campanile.deliver(row.verb, row.path, row.body, idempotency_key: row.key) }
    Outbox.drain
    assert_equal ["Once"], titles(user)
  end

  def test_the_bytes_stay_the_same_over_attempts
    Front.open([:refuse, 503], :lose) do |front|
      ::Campanile.client = client(url: front.url)
      Outbox.notify(user, title: "Grüße <&> \u2028")
      2.times { assert_raises(Campanile::Error) { Outbox.drain } }
      assert_equal 1, Outbox.drain
      assert_equal 1, front.requests.map { |request| request.b[/\r\n\r\n.*/m] }.uniq.size
      assert_equal 1, front.requests.map { |request| request[/^idempotency-key: "outbox:.*/i] }.uniq.size
    end
    assert_equal ["Grüße <&> \u2028"], titles(user)
  end

  def test_a_refused_row_stays_with_its_problem_and_the_rest_goes_on
    ["One", "", "Three"].each { |title| Outbox.notify(user, title: title) }
    assert_equal 2, Outbox.drain
    assert_equal %w[One Three], titles(user)
    row = Outbox::Row.first
    assert_match(/422 invalid title/, row.problem)
    assert_equal 0, Outbox.drain, "it isn't sent again by itself"
    # Mended, it goes.
    row.update!(body: JSON.generate(user_id: user, title: "Two"), problem: nil)
    assert_equal 1, Outbox.drain
  end

  def test_while_the_server_is_away_everything_waits_and_the_job_comes_back
    ::Campanile.client = client(url: "http://127.0.0.1:#{World.free_port}")
    2.times { |number| Outbox.notify(user, title: number.to_s) }
    perform_enqueued_jobs
    assert_equal [2, 0], [Outbox::Row.waiting.count, Outbox::Row.refused.count]
    ::Campanile.client = campanile
    run_jobs
    assert_equal %w[0 1], titles(user)
  end

  def test_what_a_proxy_answers_while_no_server_is_behind_it_refuses_no_row
    2.times { |number| Outbox.notify(user, title: number.to_s) }
    Front.open([:refuse, 404], [:refuse, 408], [:refuse, 522]) do |front|
      behind = client(url: front.url)
      3.times { assert_kind_of Campanile::Passing, assert_raises(Campanile::Problem) { Outbox.drain(client: behind) } }
      assert_equal [2, 0], [Outbox::Row.waiting.count, Outbox::Row.refused.count]
      assert_equal 2, Outbox.drain(client: behind)
    end
    assert_equal %w[0 1], titles(user)
  end

  # Net::HTTP answers bytes, and a text's column takes none that end within a character.
  def test_a_row_that_a_proxy_refuses_in_another_script_lets_the_next_ones_go
    2.times { |number| Outbox.notify(user, title: number.to_s) }
    Front.open([:page, 403, "<html>\0#{"이 요청은 차단되었습니다. " * 40}</html>"]) do |front|
      assert_equal 1, Outbox.drain(client: client(url: front.url))
    end
    assert_equal ["1"], titles(user)
    assert_match(/\A403 <html>이 요청은 차단되었습니다\. /, Outbox::Row.first.problem)
  end

  def test_a_wrong_key_is_no_rows_fault
    Outbox.notify(user, title: "Hello")
    assert_raises(Campanile::Unauthorized) { Outbox.drain(client: client(key: "cmp_wrong")) }
    assert_equal 1, Outbox.drain
  end

  def test_of_two_drains_one_sends_and_a_claim_ends
    row = Outbox.notify(user, title: "Hello")
    row.update_columns(claimed_by: "another drain", claimed_until: Time.now.utc + 30)
    Outbox.notify(user, title: "After it")
    assert_equal 0, Outbox.drain, "no row overtakes the one that another drain is sending"
    row.update_columns(claimed_until: Time.now.utc - 1)
    assert_equal 2, Outbox.drain
    assert_equal ["Hello", "After it"], titles(user)
  end

  def test_a_drain_that_lost_its_claim_amid_a_call_neither_goes_on_nor_takes_the_row_away
    many = Array.new(101) { |number| "#{user}-#{number}" }
    campanile.notify_all(many, title: "Many", external_id: user, push: false)
    Outbox.withdraw(external_id: user)
    taken = client
    taken.define_singleton_method(:deliver) do |*arguments, **more|
      super(*arguments, **more).tap { Outbox::Row.update_all(claimed_by: "another drain", claimed_until: Time.now.utc + 30) }
    end
    assert_equal 0, Outbox.drain(client: taken)
    assert_equal [1, "another drain"], [Outbox::Row.count, Outbox::Row.first.claimed_by]
  end

  def test_a_row_at_which_the_server_fails_each_time_lets_the_next_ones_go
    Front.open(*[[:refuse, 500]] * Outbox::Drain::FAULTS) do |front|
      failing = client(url: front.url)
      2.times { |number| Outbox.notify(user, title: number.to_s) }
      (Outbox::Drain::FAULTS - 1).times { assert_raises(Campanile::InternalError) { Outbox.drain(client: failing) } }
      assert_equal 1, Outbox.drain(client: failing)
    end
    assert_equal [["1"], 1], [titles(user), Outbox::Row.refused.count]
  end

  def test_a_queue_that_is_down_leaves_the_commit_alone
    DrainJob.stub(:perform_later, -> { raise "no queue" }) { Outbox.notify(user, title: "Committed") }
    assert_equal 1, Outbox.drain
  end

  def test_a_rows_key_is_its_own
    assert_raises(ArgumentError) { Outbox.notify(user, title: "Hello", idempotency_key: "mine") }
  end

  def test_times_are_written_as_the_server_reads_them
    Outbox.notify(user, title: "Soon", expires_at: 1.hour.from_now)
    assert_equal 1, Outbox.drain
    assert campanile.notify(user, title: "Soon", expires_at: Time.now + 60).id
  end

  def test_the_generator_makes_the_migration_once
    Dir.mktmpdir do |folder|
      2.times { Campanile::Generators::OutboxGenerator.start(["--quiet"], destination_root: folder) }
      assert_equal 1, Dir[File.join(folder, "db/migrate/*")].size
    end
  end
end
