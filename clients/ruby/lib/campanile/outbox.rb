require "active_record"
require "campanile"
require "campanile/drain_job"

module Campanile
  # Calls that are written down in the app's own database, in its own transaction, and made afterwards: what is rolled back is never sent, and
  # what is committed is sent once.
  #
  #   Order.transaction do
  #     order.ship!
  #     Campanile::Outbox.notify(order.user, title: "Your order is on its way")
  #   end
  #
  # `rails generate campanile:outbox` makes the table. Each row has a key of its own, and the bytes of its call, which stay what they were
  # when it is sent again.
  module Outbox
    # A row that waits, or that the server refused: then `problem` says why, and it stays until somebody looks.
    class Row < ActiveRecord::Base
      self.table_name = "campanile_outbox"

      scope :waiting, -> { where(problem: nil).order(:id) }
      scope :refused, -> { where.not(problem: nil).order(:id) }

      # A job for each row finds what is there; one that finds nothing ends at once. Where the queue is down the row waits for the next drain,
      # and what was committed stays so.
      after_create_commit do
        DrainJob.perform_later
      rescue StandardError => error
        logger&.warn("Campanile: no drain was enqueued: #{error.message}")
      end
    end

    class << self
      # As Campanile.notify, later, with a key of the row's own. Answers the Row.
      def notify(user, **fields) = create({ user_id: Identity.user(user) }, fields)

      # As Campanile.notify_all, later: a Row for each 1,000 users.
      def notify_all(users, **fields)
        users.map { |user| Identity.user(user) }.uniq.sort.each_slice(Client::USERS_IN_A_CALL).map do |part|
          create({ user_ids: part }, fields)
        end
      end

      # As Campanile.edit and Campanile.withdraw, later.
      def edit(notification, user: nil, **fields) = write("PATCH", Client.path_of(notification, user), fields)

      def withdraw(notification = nil, user: nil, external_id: nil)
        raise ArgumentError, "withdraw takes a notification or an external_id" unless notification.nil? ^ external_id.nil?

        write("DELETE", external_id ? Client.path_of_name(external_id) : Client.path_of(notification, user))
      end

      # As Campanile.give_badge and Campanile.reads, later: a Row for each 100 that were read, the number with the last.
      def give_badge(user, count:, sequence:, tenant: nil)
        write("PUT", Client.path_of_user(user, "badge"), { count: count, sequence: sequence, tenant: tenant }.compact)
      end

      def reads(user, notifications = nil, external_ids: nil, badge: nil)
        Client.reads(notifications, external_ids, badge).map { |fields| write("POST", Client.path_of_user(user, "reads"), fields) }
      end

      # Sends what waits, oldest first, until nothing does, another drain is at it, or the server can't be reached. Answers how many rows were
      # sent. A row that the server refuses for good gets its problem, and the next one follows.
      #
      # Raises what another attempt may mend (Passing), and Unauthorized or Forbidden, which concern the key and no row.
      def drain(client: Campanile.client) = Drain.new(client).run

      private

      def create(users, fields)
        raise ArgumentError, "an outbox's row has an idempotency_key of its own" if fields.key?(:idempotency_key)

        write("POST", "/notifications", { **users, **fields })
      end

      def write(verb, path, fields = nil)
        Row.create!(key: "outbox:#{SecureRandom.uuid}", verb: verb, path: path, body: fields && Client.json(fields))
      end
    end

    # One drain. The oldest row that waits is claimed before each of its calls: of several drains one sends, and the others end. One that was
    # killed is followed by another when its claim is over.
    class Drain
      # Seconds. Longer than a call takes, with its time limits.
      CLAIM_SECONDS = 60
      # How often the server may answer a row with a fault of its own before the next rows follow.
      FAULTS = 12

      def initialize(client)
        @client, @name = client, SecureRandom.uuid
      end

      # Answers how many rows were sent.
      def run
        sent = 0
        while (row = Row.waiting.first)
          case send_row(row)
          when :sent then sent += 1
          when :claimed then break
          end
        end
        sent
      ensure
        mine.update_all(claimed_until: nil, claimed_by: nil) if @has_claimed
      end

      private

      # :sent, :refused, or :claimed by another drain.
      def send_row(row)
        loop do
          return :claimed unless claim(row)
          break unless make(row)
        end
        mine.where(id: row.id).delete_all == 1 ? :sent : :claimed
      rescue InternalError => fault
        mine.where(id: row.id).update_all("faults = faults + 1")
        row.faults + 1 < FAULTS ? raise : refuse(row, fault)
      rescue Unauthorized, Forbidden, Passing
        raise
      rescue Problem => problem
        refuse(row, problem)
      end

      def refuse(row, problem)
        mine.where(id: row.id).update_all(problem: problem.message)
        :refused
      end

      # Claims the row with one statement, so that the database gives it to one drain. The times are those of the app's clock.
      def claim(row)
        now = Time.now.utc
        Row.where(id: row.id, problem: nil).where("claimed_until IS NULL OR claimed_until < ? OR claimed_by = ?", now, @name)
           .update_all(claimed_until: now + CLAIM_SECONDS, claimed_by: @name).then { |claimed| @has_claimed = claimed == 1 }
      end

      def mine = Row.where(claimed_by: @name)

      # Whether the same call has more to do: a withdrawal of a name takes 100 at a time.
      def make(row)
        answer = @client.deliver(row.verb, row.path, row.body, idempotency_key: row.verb == "POST" ? row.key : nil, attempts: 1)
        row.verb == "DELETE" && answer.json&.fetch("more", false)
      rescue NotFound
        raise unless row.verb == "DELETE" # it is withdrawn
      end
    end
  end
end
