require "active_job"
require "active_support/concern"
require "campanile"

module Campanile
  # For a model of the app's own whose rows are its users' inbox. A row that is created is pushed; one that is changed is edited on the phones; one
  # that is read leaves them; one that is destroyed, or becomes another user's, is withdrawn.
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
  # A change creates nothing: what the server never had, because it is older than this gem perhaps, it doesn't get.
  #
  # `read` names the attribute that is set when the row is read. `badge` names a method of the recipient's that answers their number for an app
  # under `badge.policy: given`: `{ count:, sequence: }`.
  #
  # Each commit enqueues a RecordJob, which has the server agree with the row as it is then, and looks again afterwards; so the jobs may run
  # in any order, at once and more than once. A process that ends between its commit and its queue loses the call, and so does a queue that is
  # down, which is logged: where that may not be, write the calls to the Outbox instead, in the transaction.
  #
  # Changes without callbacks (`update_all`, `delete_all`, `insert_all`, `dependent: :delete_all`) tell nobody. Take the ids first, and tell the
  # Outbox in the transaction, with `badge:` where the number is given:
  #
  #   Campanile::Outbox.reads(user, external_ids: ids.map { |id| Message.campanile_external_id(id) })
  module Notifiable
    extend ActiveSupport::Concern

    # What a model says with `notifies`.
    Notifies = Struct.new(:recipient, :read, :badge, :fields, keyword_init: true) do
      # The belongs_to that names the recipient; nil where a method does.
      def belongs_to(model) = model.reflect_on_association(recipient)&.then { |one| one if one.belongs_to? }

      # Whose row it is, or was `before` its last save, as [class, id]; nil if it is nobody's. Of a belongs_to the key says so, which no default
      # scope hides.
      def recipient_of(record, before: false)
        key = belongs_to(record.class) or return record.public_send(recipient)&.then { |one| [one.class.name, one.id] }
        value, type = lacks_keys?(record) ? keys_in_row(record, key) : keys(key).map { before ? record.attribute_before_last_save(_1) : record[_1] }
        return if value.nil? || (key.polymorphic? && type.blank?)

        model = key.polymorphic? ? record.class.polymorphic_class_for(type) : key.klass
        primary = key.association_primary_key(model)
        value = model.unscoped.where(primary => value).pick(model.primary_key) unless primary == model.primary_key
        value && [model.name, value]
      end

      # Whether the record was loaded without them, as by a `select`. Then Rails answers a bare Object for what they were, also where one is assigned.
      def lacks_keys?(record)
        key = belongs_to(record.class)
        !key.nil? && keys(key).any? { |name| record.attribute_in_database(name).instance_of?(Object) }
      end

      private

      def keys(key) = [key.foreign_key, (key.foreign_type if key.polymorphic?)].compact

      def keys_in_row(record, key) = record.class.unscoped.where(record.class.primary_key => record.id).pick(*keys(key))
    end

    included do
      class_attribute :campanile_notifies, instance_accessor: false
      # Of a record without its keys the row knows it, until it is changed.
      before_update { campanile_note_recipient if self.class.campanile_notifies&.lacks_keys?(self) }
      before_destroy { campanile_note_recipient if self.class.campanile_notifies&.lacks_keys?(self) }
      after_update { campanile_note_recipient }
      after_create_commit do
        @campanile_former = nil
        RecordJob.enqueue(self, "created")
      end
      after_update_commit { RecordJob.enqueue(self, "updated", former: campanile_former) }
      after_destroy_commit { RecordJob.enqueue(self, "destroyed", former: campanile_former) }
    end

    class_methods do
      # `recipient` names the belongs_to of the user, or a method that answers them, whose change isn't followed. The block runs in the row, and
      # answers the fields of Campanile.notify.
      def notifies(recipient, read: nil, badge: nil, &fields)
        raise ArgumentError, "notifies takes a block that answers the fields" unless fields

        self.campanile_notifies = Notifies.new(recipient: recipient, read: read, badge: badge, fields: fields)
      end

      # The `external_id` of a row: its name among its user's notifications.
      def campanile_external_id(id) = "#{base_class.name}:#{id}"
    end

    private

    # Whose row it was before the transaction: its first save knows.
    def campanile_note_recipient
      notifies = self.class.campanile_notifies
      @campanile_former ||= [notifies.recipient_of(self, before: true)] if notifies&.belongs_to(self.class)
    end

    # The same, once: in an array, because it may have been nobody's; nil if no save told.
    def campanile_former = @campanile_former.tap { @campanile_former = nil }
  end

  # Has the server agree with a row of Notifiable's.
  class RecordJob < ActiveJob::Base
    # What a row's change may edit; the rest of a notification's fields are of its creation.
    EDITED = %i[title subtitle body deep_link data category].freeze
    # How often a row that changes meanwhile is looked at; its next job goes on.
    LOOKS = 5

    retry_on Passing, **PATIENCE

    # A row that is another's from now on leaves the one, for whom its job finds that out, and is created for the other. Of two objects of a row
    # that are saved in one transaction Rails tells one alone, which may not know of the other's change: then the job of the one that was told
    # finds it out, and has the row created.
    def self.enqueue(record, event, former: nil)
      notifies = record.class.campanile_notifies || raise(ConfigurationError, "#{record.class} includes Campanile::Notifiable and says no `notifies`")
      recipient = notifies.recipient_of(record)
      return later(record, event, recipient || former&.first) if event == "destroyed"

      is_handed_on = former && former[0]&.last != recipient&.last
      later(record, "left", former[0]) if is_handed_on
      later(record, is_handed_on ? "created" : event, recipient)
    rescue ConfigurationError
      raise
    rescue StandardError => error
      not_enqueued(record, event, error)
    end

    # Enqueues a job, unless there is nobody to tell.
    def self.later(record, event, recipient)
      return if recipient.nil? && event != "destroyed"

      perform_later(record.class.name, record.id, event, recipient)
    rescue StandardError => error
      not_enqueued(record, event, error)
    end

    # What was committed stays so, and the callbacks of the transaction's other rows go on.
    def self.not_enqueued(record, event, error)
      record.class.logger&.error("Campanile: #{record.class.campanile_external_id(record.id)} was #{event}, and no job was enqueued: #{error.message}")
    end

    def perform(model, id, event, recipient)
      @model, @id, @event, @recipient = model.constantize, id, event, recipient
      @notifies, seen = @model.campanile_notifies, nil
      LOOKS.times do
        now = look
        break if shown(now) == seen

        agree(now)
        seen = shown(now)
      end
    end

    private

    def external_id = @model.campanile_external_id(@id)

    # :gone, :another_s, :read, or the fields of what is unread. A row that was destroyed is gone, though an app may keep it, marked.
    def look
      record = find(@model, @id)
      return :gone if record.nil? || @event == "destroyed"
      return :another_s if @notifies.belongs_to(@model) && @notifies.recipient_of(record)&.last != user

      @notifies.read && record.public_send(@notifies.read) ? :read : record.instance_exec(&@notifies.fields).to_h.transform_keys(&:to_sym)
    end

    # Of a look what an edit can tell: a time that is counted from now is another at each look.
    def shown(now) = now.is_a?(Hash) ? now.slice(*EDITED) : now

    def agree(now)
      case now
      when :gone
        Campanile.withdraw(external_id: external_id)
        give
      when :another_s
        notification_id&.then { |id| Campanile.withdraw(id, user: user) }
        hand_on unless @event == "left"
        give
      when :read then Campanile.reads(user, external_ids: [external_id], badge: number)
      else @event == "created" ? create(now) : edit(notification_id, now)
      end
    end

    def create(fields)
      Campanile.notify(user, external_id: external_id, **fields, **{ badge: number }.compact)
    rescue ExternalIdTaken => taken
      edit(taken.notification_id, fields)
    end

    # Has the row created for whom it is now.
    def hand_on
      record = find(@model, @id) or return
      self.class.later(record, "created", @notifies.recipient_of(record))
    end

    # Nothing is created for a change, and nobody alerted: the row may be older than this gem, or have been read when its creation was told.
    # What is still to be created is created as the row is then.
    def edit(notification, fields)
      replace(notification, fields) if notification
      give
    end

    # On the phones too, silently. What changes nothing the server passes over; after an earlier edit it repeats the alert, in its place.
    def replace(notification, fields)
      Campanile.edit(notification, user: user, push: true, **fields.slice(*EDITED))
    rescue NotFound
      nil # it was withdrawn, or its user deleted it
    end

    # The notification that the user has, or had, by the row's name; nil if there was none. The look creates nothing.
    def notification_id
      Campanile.preview(user, title: external_id, external_id: external_id, push: false)
      nil
    rescue ExternalIdTaken => taken
      taken.notification_id
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
