require "active_job"
require "active_support/concern"
require "campanile"

module Campanile
  # For a model of the app's own whose rows are its users' inbox. A row that is created is pushed; one that is changed is edited on the phones; one
  # that is read leaves them; one that is destroyed is withdrawn.
  #
  #   class Message < ApplicationRecord
  #     include Campanile::Notifiable
  #     belongs_to :recipient, class_name: "User"
  #
  #     notifies :recipient, read: :read_at do
  #       { title: subject, body: excerpt, deep_link: "/messages/#{id}" }
  #     end
  #   end
  #
  # `read` names the attribute that is set when the row is read. `badge` names a method of the recipient's that answers their number for an app
  # under `badge.policy: given`: `{ count:, sequence: }`.
  #
  # Each commit enqueues a RecordJob, which has the server agree with the row as it is then, and looks again afterwards; so the jobs may run
  # in any order, at once and more than once. A process that ends between its commit and its queue loses the call, and so does a queue that is
  # down, which is logged: where that may not be, write the calls to the Outbox instead, in the transaction.
  module Notifiable
    extend ActiveSupport::Concern

    Notifies = Struct.new(:recipient, :read, :badge, :fields, keyword_init: true)

    included do
      class_attribute :campanile_notifies, instance_accessor: false
      after_create_commit { RecordJob.enqueue(self, "created") }
      after_update_commit { RecordJob.enqueue(self, "updated") }
      after_destroy_commit { RecordJob.enqueue(self, "destroyed") }
    end

    class_methods do
      # `recipient` names the method that answers the user. The block runs in the row, and answers the fields of Campanile.notify.
      def notifies(recipient, read: nil, badge: nil, &fields)
        raise ArgumentError, "notifies takes a block that answers the fields" unless fields

        self.campanile_notifies = Notifies.new(recipient: recipient, read: read, badge: badge, fields: fields)
      end

      # The `external_id` of a row: its name among its user's notifications.
      def campanile_external_id(id) = "#{base_class.name}:#{id}"
    end
  end

  # Has the server agree with a row of Notifiable's.
  class RecordJob < ActiveJob::Base
    # What a row's change may edit; the rest of a notification's fields are of its creation.
    EDITED = %i[title subtitle body deep_link data category].freeze
    # How often a row that changes meanwhile is looked at; its next job goes on.
    LOOKS = 5

    retry_on Passing, **PATIENCE

    def self.enqueue(record, event)
      notifies = record.class.campanile_notifies || raise(ConfigurationError, "#{record.class} includes Campanile::Notifiable and says no `notifies`")
      recipient = record.public_send(notifies.recipient)
      later(record, event, recipient && [recipient.class.name, recipient.id])
    end

    # Enqueues a job. Where the queue is down what was committed stays so, and so do the callbacks of the transaction's other rows.
    def self.later(record, event, recipient)
      perform_later(record.class.name, record.id, event, recipient)
    rescue StandardError => error
      record.class.logger&.error("Campanile: #{record.class.campanile_external_id(record.id)} was #{event}, and no job was enqueued: #{error.message}")
    end
    private_class_method :later

    def perform(model, id, event, recipient)
      @model, @id, @event, @recipient = model.constantize, id, event, recipient
      @notifies, seen = @model.campanile_notifies, nil
      LOOKS.times do
        now = look
        break if now == seen

        agree(now, edits: @event == "updated" || !seen.nil?)
        seen = now
      end
    end

    private

    def external_id = @model.campanile_external_id(@id)

    # :gone, :read, or the fields of what is unread. A row that was destroyed is gone, though an app may keep it, marked.
    def look
      record = find(@model, @id)
      return :gone if record.nil? || @event == "destroyed"

      @notifies.read && record.public_send(@notifies.read) ? :read : record.instance_exec(&@notifies.fields)
    end

    def agree(now, edits:)
      case now
      when :gone
        Campanile.withdraw(external_id: external_id)
        give
      when :read then Campanile.reads(user, external_ids: [external_id], badge: number)
      else create(now, edits: edits)
      end
    end

    def create(fields, edits:)
      Campanile.notify(user, external_id: external_id, **fields, **{ badge: number }.compact)
    rescue ExternalIdTaken => taken
      edit(taken.notification_id, fields) if edits && taken.notification_id
      give
    end

    def edit(notification, fields)
      Campanile.edit(notification, user: user, **fields.slice(*EDITED))
    rescue NotFound
      nil # it was withdrawn, or its user deleted it
    end

    def give
      given = number
      Campanile.give_badge(user, **given) if given
    end

    def user = @recipient&.last

    # The recipient's number as it is now; nil where the server counts, or the recipient is gone.
    def number
      find(@recipient.first.constantize, user)&.public_send(@notifies.badge) if @notifies.badge && @recipient
    end

    # The record as it is now; nil if it is gone. A default scope, of the tenant who asks perhaps, knows nothing of a job.
    def find(model, id)
      model.uncached { model.unscoped.find(id) }
    rescue ActiveRecord::RecordNotFound
      nil
    end
  end
end
