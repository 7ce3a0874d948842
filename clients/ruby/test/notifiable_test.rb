require "test_helper"
require "minitest/mock"
require "front"
require "rails_app"

Shop.initialize!

ActiveRecord::Schema.define do
  create_table(:users) do |t|
    t.string :name
    t.integer :changes_of_inbox, default: 0
  end
  create_table :messages do |t|
    t.references :recipient
    t.string :subject
    t.datetime :read_at
    t.boolean :hidden, default: false
    t.string :recipient_type
  end
  create_table(:letters, id: false) do |t|
    t.string :uuid, primary_key: true
    t.integer :id
    t.references :recipient
    t.string :subject
  end
end

class Message < ActiveRecord::Base
  include Campanile::Notifiable

  belongs_to :recipient, class_name: "User"

  notifies :recipient, read: :read_at do
    { title: subject, deep_link: "/messages/#{id}", thread_id: "messages" }
  end
end

# One whose recipient's number the app counts.
class CountedMessage < Message
  notifies :recipient, read: :read_at, badge: :number do
    { title: subject }
  end
end

# One that most of the app doesn't see once it is hidden.
class ArchivedMessage < Message
  default_scope { where(hidden: false) }
end

# One whose `id` isn't its primary key.
class Letter < ActiveRecord::Base
  self.primary_key = "uuid"
  include Campanile::Notifiable

  belongs_to :recipient, class_name: "User"

  notifies(:recipient) { { title: subject } }
end

# One whose fields say something else at each look.
class PassingMessage < Message
  notifies :recipient, read: :read_at do
    { title: subject, expires_at: 1.hour.from_now }
  end
end

# One whose recipient is no association.
class Announcement < Message
  def owner = recipient

  notifies(:owner) { { title: subject } }
end

# One whose key to its recipient isn't the recipient's id.
class NamedMessage < ActiveRecord::Base
  self.table_name = "messages"
  include Campanile::Notifiable

  belongs_to :recipient, class_name: "User", foreign_key: :subject, primary_key: :name

  notifies(:recipient) { { title: "To #{subject}" } }
end

# One whose recipient is of any model.
class AddressedMessage < ActiveRecord::Base
  self.table_name = "messages"
  include Campanile::Notifiable

  belongs_to :recipient, polymorphic: true, optional: true

  notifies(:recipient) { { title: subject } }
end

class User
  def number
    increment!(:changes_of_inbox)
    { count: CountedMessage.where(recipient: self, read_at: nil).count, sequence: changes_of_inbox }
  end
end

# A model of the app's own, in a Rails app with ActiveJob.
class NotifiableTest < RailsTest
  def alice = @alice ||= User.create!(name: "Alice")

  def bob = @bob ||= User.create!(name: "Bob")

  def inbox = campanile.inbox(alice)

  def test_a_created_row_is_pushed_and_one_that_is_rolled_back_never
    Message.create!(recipient: alice, subject: "Hello")
    Message.transaction do
      Message.create!(recipient: alice, subject: "Rolled back")
      raise ActiveRecord::Rollback
    end
    run_jobs
    shown = inbox.list.notifications
    assert_equal ["Hello"], shown.map(&:title)
    assert_match(%r{\A/messages/\d+\z}, shown[0].deep_link)
  end

  def test_a_changed_row_is_edited_and_a_read_one_is_read
    message = Message.create!(recipient: alice, subject: "Helo")
    run_jobs
    message.update!(subject: "Hello")
    run_jobs
    assert_equal [["Hello"], 1], [titles(alice), inbox.badge.count]
    message.update!(read_at: Time.now)
    run_jobs
    assert_equal [true, 0], [inbox.list.notifications[0].read?, inbox.badge.count]
  end

  def test_a_destroyed_row_is_withdrawn
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    message.destroy!
    run_jobs
    assert_empty titles(alice)
  end

  def test_jobs_in_another_order_and_made_twice_end_at_the_same
    message = Message.create!(recipient: alice, subject: "Helo")
    message.update!(subject: "Hello")
    jobs = enqueued_jobs.map { |job| job["arguments"] }
    clear_enqueued_jobs
    [*jobs.reverse, *jobs].each { |arguments| Campanile::RecordJob.perform_now(*arguments) }
    assert_equal ["Hello"], titles(alice)
    message.update!(read_at: Time.now)
    message.destroy!
    [*jobs, *enqueued_jobs.map { |job| job["arguments"] }].each { |arguments| Campanile::RecordJob.perform_now(*arguments) }
    assert_empty titles(alice)
  end

  def test_what_was_read_before_its_job_ran_is_not_pushed
    message = Message.create!(recipient: alice, subject: "Hello")
    message.update!(read_at: Time.now)
    run_jobs
    assert_empty titles(alice)
  end

  def test_the_number_of_the_app_s_own_inbox_goes_along
    ::Campanile.client = own
    first = CountedMessage.create!(recipient: alice, subject: "One")
    CountedMessage.create!(recipient: alice, subject: "Two")
    run_jobs
    assert_equal 2, own.inbox(alice).badge.count
    first.update!(read_at: Time.now)
    run_jobs
    assert_equal [1, 1], own.inbox(alice).badge.then { |badge| [badge.count, badge.unread_count] }
    first.update!(read_at: nil)
    run_jobs
    assert_equal 2, own.inbox(alice).badge.count, "unread again"
    first.destroy!
    run_jobs
    assert_equal 1, own.inbox(alice).badge.count
  end

  def test_a_change_of_a_row_that_the_server_never_had_creates_nothing
    Message.insert_all([{ recipient_id: alice.id, subject: "Older than the gem" }])
    message = Message.find_by!(recipient: alice)
    message.update!(subject: "Changed")
    message.touch(:read_at)
    message.update!(read_at: nil)
    Message.create!(recipient: alice, subject: "Read", read_at: Time.now).tap { |read| run_jobs && read.update!(read_at: nil) }
    run_jobs
    assert_empty titles(alice)
  end

  def test_a_creation_that_comes_after_its_change_tells_what_is_there
    message = Message.create!(recipient: alice, subject: "Helo")
    message.update!(subject: "Hello")
    created, updated = enqueued_jobs.map { |job| job["arguments"] }
    Campanile::RecordJob.perform_now(*updated)
    assert_empty titles(alice)
    Campanile::RecordJob.perform_now(*created)
    assert_equal ["Hello"], titles(alice)
  end

  # The change's job has found nothing, because the creation was under way.
  def test_a_row_that_changes_while_its_job_creates_it_is_edited
    message = Message.create!(recipient: alice, subject: "Helo")
    created = enqueued_jobs.map { |job| job["arguments"] }.first
    notify = campanile.method(:notify)
    campanile.stub(:notify, ->(*arguments, **fields) { message.update_columns(subject: "Hello") && notify.call(*arguments, **fields) }) do
      Campanile::RecordJob.perform_now(*created)
    end
    assert_equal ["Hello"], titles(alice)
    message.update_columns(subject: "Hello again")
    Campanile::RecordJob.perform_now(*created)
    assert_equal ["Hello again"], titles(alice), "a job that ended after its creation runs again"
  end

  def test_only_what_an_edit_changes_has_a_row_looked_at_again
    calls = []
    listener = ActiveSupport::Notifications.subscribe("request.campanile") { |*, event| calls << event.values_at(:method, :status) }
    message = PassingMessage.create!(recipient: alice, subject: "Hello")
    run_jobs
    message.update!(subject: "Hello again")
    run_jobs
    assert_equal [["POST", 201], ["POST", 409], ["PATCH", 200]], calls
  ensure
    ActiveSupport::Notifications.unsubscribe(listener)
  end

  def test_an_edit_reaches_the_phones_and_a_change_of_nothing_that_is_shown_does_not
    inbox.register_device(token: SecureRandom.hex(32), platform: "ios")
    message = Message.create!(recipient: alice, subject: "Helo")
    run_jobs
    message.update!(hidden: true)
    run_jobs
    assert_equal [["Helo"], nil], [pushed(1), inbox.list.notifications[0].edited_at]
    message.update!(subject: "Hello")
    run_jobs
    assert_equal %w[Helo Hello], pushed(2)
  end

  # The titles of alice's alerts once there are so many, oldest first: they go out after the answer.
  def pushed(count)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
    loop do
      titles = campanile.sandbox_pushes(alice).filter_map { |push| push.dig("payload", "aps", "alert", "title") }.reverse
      return titles if titles.size >= count
      flunk "of #{count} alerts came #{titles}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.02
    end
  end

  def test_what_the_user_deleted_is_no_fault_of_a_later_change
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    inbox.delete(inbox.list.notifications[0].id)
    message.update!(subject: "Hello again")
    run_jobs
    assert_empty titles(alice)
  end

  def test_a_row_that_is_read_while_its_job_creates_it_is_read
    message = Message.create!(recipient: alice, subject: "Hello")
    clear_enqueued_jobs
    notify = campanile.method(:notify)
    campanile.stub(:notify, ->(*arguments, **fields) { notify.call(*arguments, **fields).tap { message.update_columns(read_at: Time.now) } }) do
      Campanile::RecordJob.perform_now("Message", message.id, "created", ["User", alice.id])
    end
    assert_equal [true], inbox.list.notifications.map(&:read?)
  end

  def test_a_row_goes_with_its_recipient
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    user = alice.id
    alice.destroy!
    message.reload.destroy!
    run_jobs
    assert_empty titles(user)
  end

  def test_a_row_is_found_by_its_primary_key
    Letter.create!(uuid: "5eb1d7fe-#{user}", recipient: alice, subject: "Hello")
    run_jobs
    assert_equal [["Hello"], "Letter:5eb1d7fe-#{user}"], [titles(alice), inbox.list.notifications[0].external_id]
  end

  def test_a_row_that_a_default_scope_hides_is_there
    message = ArchivedMessage.create!(recipient: alice, subject: "Hello")
    run_jobs
    message.update!(hidden: true)
    run_jobs
    assert_equal ["Hello"], titles(alice)
  end

  def test_a_row_that_is_destroyed_and_kept_is_withdrawn
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    Campanile::RecordJob.perform_now("Message", message.id, "destroyed", ["User", alice.id])
    assert_empty titles(alice)
  end

  def test_a_row_that_is_another_s_leaves_the_one_and_comes_to_the_other
    message = CountedMessage.create!(recipient: alice, subject: "Hello")
    ::Campanile.client = own
    run_jobs
    message.update!(recipient: bob)
    run_jobs
    shown = -> { [alice, bob].map { |one| own.inbox(one).list.then { |page| [page.notifications.map(&:title), page.badge.count] } } }
    assert_equal [[[], 0], [["Hello"], 1]], shown.call
    message.update!(recipient: alice)
    run_jobs
    assert_equal [[[], 1], [[], 0]], shown.call, "the name is taken"
  end

  def test_a_row_that_is_another_s_leaves_also_where_more_was_saved_in_the_transaction
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    Message.transaction do
      message.update!(recipient: bob)
      message.update!(subject: "Hello Bob")
    end
    run_jobs
    assert_equal [[], ["Hello Bob"]], [titles(alice), titles(bob)]
  end

  def test_a_row_that_is_another_s_comes_to_them_also_where_rails_tells_another_object_of_it
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    Message.transaction do
      same = Message.find(message.id)
      message.update!(subject: "Hello Bob")
      same.update!(recipient: bob)
    end
    run_jobs
    assert_equal [[], ["Hello Bob"]], [titles(alice), titles(bob)]
  end

  def test_a_row_that_is_another_s_comes_to_them_also_where_its_creation_was_told_to_nobody_yet
    Message.transaction do
      made = Message.create!(recipient: alice, subject: "Hello")
      Message.find(made.id).update!(recipient: bob)
    end
    run_jobs
    assert_equal [[], ["Hello"]], [titles(alice), titles(bob)]
    message = Message.create!(recipient: alice, subject: "Again")
    Message.transaction { [message, Message.find(message.id)].zip([{ subject: "Again!" }, { recipient: bob }]) { |one, change| one.update!(change) } }
    run_jobs
    assert_equal [[], ["Hello", "Again!"]], [titles(alice), titles(bob)]
  end

  def test_a_row_that_comes_back_in_its_transaction_stays
    message = Message.create!(recipient: alice, subject: "Hello")
    run_jobs
    Message.transaction { [bob, alice].each { |one| message.update!(recipient: one) } }
    assert_equal(["updated"], enqueued_jobs.map { |job| job["arguments"][2] })
    run_jobs
    assert_equal [["Hello"], []], [titles(alice), titles(bob)]
  end

  def test_a_row_that_is_another_s_before_its_creation_is_committed_is_only_theirs
    message = Message.transaction { Message.create!(recipient: alice, subject: "Hello").tap { |made| made.update!(recipient: bob) } }
    message.update!(subject: "Hello Bob")
    assert_equal([["created", bob.id], ["updated", bob.id]], enqueued_jobs.map { |job| [job["arguments"][2], job["arguments"][3][1]] })
  end

  def test_jobs_of_a_row_that_is_another_s_may_come_in_any_order
    message = Message.create!(recipient: alice, subject: "Hello")
    message.update!(recipient: bob)
    jobs = enqueued_jobs.map { |job| job["arguments"] }
    clear_enqueued_jobs
    [*jobs.reverse, *jobs].each { |arguments| Campanile::RecordJob.perform_now(*arguments) }
    assert_equal [[], ["Hello"]], [titles(alice), titles(bob)]
  end

  def test_a_row_that_becomes_another_s_while_its_job_creates_it_leaves
    message = Message.create!(recipient: alice, subject: "Hello")
    clear_enqueued_jobs
    notify = campanile.method(:notify)
    campanile.stub(:notify, ->(*arguments, **fields) { notify.call(*arguments, **fields).tap { message.update_columns(recipient_id: bob.id) } }) do
      Campanile::RecordJob.perform_now("Message", message.id, "created", ["User", alice.id])
    end
    assert_empty titles(alice)
  end

  def test_a_row_is_another_s_by_a_key_that_is_not_the_id_and_by_the_model
    alice.update!(name: user)
    bob.update!(name: "#{user} too")
    rows = [NamedMessage.create!(recipient: alice), AddressedMessage.create!(recipient: alice, subject: "Hello")]
    run_jobs
    assert_equal [["To #{user}", "Hello"], []], [titles(alice), titles(bob)]
    rows.each { |row| row.update!(recipient: bob) }
    run_jobs
    assert_equal [[], ["To #{user} too", "Hello"]], [titles(alice), titles(bob)]
  end

  def test_nobody_is_told_of_a_row_without_a_recipient
    message = AddressedMessage.create!(subject: "Hello")
    message.update!(subject: "Hello again")
    assert_empty enqueued_jobs
    message.update!(recipient: alice)
    run_jobs
    assert_equal ["Hello again"], titles(alice)
    message.update!(recipient: nil)
    run_jobs
    assert_empty titles(alice)
    message.destroy!
    run_jobs
  end

  def test_a_recipient_that_is_no_association_is_asked
    message = Announcement.create!(recipient: alice, subject: "Hello")
    run_jobs
    assert_equal ["Hello"], titles(alice)
    message.destroy!
    run_jobs
    assert_empty titles(alice)
  end

  def test_rows_that_were_loaded_without_their_recipient_have_the_rows
    rows = Array.new(2) { |number| Message.create!(recipient: alice, subject: number.to_s) }
    addressed = AddressedMessage.create!(recipient: alice, subject: "2")
    run_jobs
    Message.transaction { Message.select(:id, :read_at).find(rows.map(&:id)).each { |row| row.update!(read_at: Time.now) } }
    AddressedMessage.select(:id).find(addressed.id).update!(hidden: true)
    assert_equal([["updated", ["User", alice.id]]] * 3, enqueued_jobs.map { |job| job["arguments"].last(2) })
    run_jobs
    assert_equal [false, true, true], inbox.list.notifications.map(&:read?)
  end

  def test_a_row_that_was_loaded_without_its_recipient_becomes_another_s
    rows = [Message, AddressedMessage].map { |model| model.create!(recipient: alice, subject: model.name) }
    run_jobs
    rows.each { |row| row.class.select(:id).find(row.id).update!(recipient: bob) }
    assert_equal([["left", alice.id], ["created", bob.id]] * 2, enqueued_jobs.map { |job| [job["arguments"][2], job["arguments"][3][1]] })
    run_jobs
    assert_equal [[], %w[Message AddressedMessage]], [titles(alice), titles(bob)]
  end

  def test_a_row_that_was_loaded_without_its_recipient_is_destroyed
    message = CountedMessage.create!(recipient: alice, subject: "Hello")
    ::Campanile.client = own
    run_jobs
    CountedMessage.select(:id).find(message.id).destroy!
    assert_equal([["destroyed", ["User", alice.id]]], enqueued_jobs.map { |job| job["arguments"].last(2) })
    run_jobs
    assert_equal [[], 0], own.inbox(alice).list.then { |page| [page.notifications.map(&:title), page.badge.count] }
  end

  def test_a_recipient_that_can_not_be_told_leaves_the_commit_alone
    log = StringIO.new
    rows = Array.new(2) { Announcement.create!(recipient: alice, subject: "Hello") }
    rows.each { |row| row.define_singleton_method(:owner) { raise "no owner" } }
    clear_enqueued_jobs
    Announcement.stub(:logger, Logger.new(log)) { Announcement.transaction { rows.each { |row| row.update!(subject: "Hello again") } } }
    assert_equal [["Hello again"] * 2, 2], [rows.map { |row| row.reload.subject }, log.string.scan("no owner").size], "each row's callback ran"
    rows.each { |row| assert_includes log.string, "Message:#{row.id} was updated" }
  end

  def test_a_queue_that_is_down_leaves_the_commit_alone
    alice
    log = StringIO.new
    Message.stub(:logger, Logger.new(log)) do
      Campanile::RecordJob.stub(:perform_later, ->(*) { raise "no queue" }) do
        Message.transaction { 2.times { |number| Message.create!(recipient: alice, subject: number.to_s) } }
      end
    end
    last = Message.last
    assert_equal ["1", 2], [last.subject, log.string.scan("no queue").size], "each row's callback ran"
    assert_includes log.string, "Message:#{last.id}"
    last.update!(subject: "Afterwards")
    assert_equal 1, enqueued_jobs.size
  end

  def test_a_model_that_says_nothing_is_told_so
    silent = Class.new(ActiveRecord::Base) do
      self.table_name = "messages"
      def self.name = "Silent"
      include Campanile::Notifiable
    end
    assert_raises(Campanile::ConfigurationError) { silent.create!(subject: "Hello") }
  end
end
