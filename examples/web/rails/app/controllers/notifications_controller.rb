# The user's inbox as pages. Campanile keeps it, so there is no model and no table: CampanileInbox calls.
class NotificationsController < ApplicationController
  PAGE = 25
  TURBO_STREAM = "text/vnd.turbo-stream.html"

  # To be adapted: Devise's authenticate_user! instead. Rails 8's generated authentication has asked already.
  before_action { head :unauthorized unless helpers.campanile_user_id }
  before_action { @cursor = params[:cursor].to_s.presence }
  rescue_from CampanileInbox::Unavailable, with: :unavailable

  def index
    # A browser's copy would show as unread, at Back, what was read meanwhile; the view says the same to Turbo.
    response.headers["Cache-Control"] = "no-store"
    list = inbox.list(look_of: request, limit: PAGE, cursor: @cursor)
    @notifications, @next_cursor = list.values_at("notifications", "next_cursor")
    # The layout's number, after what this look cleared.
    @campanile_badge_count = list["badge"]["count"]
  end

  def mark_all_read
    inbox.mark_all_read(up_to: params[:up_to].to_s.presence)
    redirect_to notifications_path, status: :see_other
  end

  def update
    answer(inbox.mark_read(params[:id]))
  end

  def destroy
    inbox.delete(params[:id])
    answer(nil)
  end

  private

  def inbox = @inbox ||= CampanileInbox.new(helpers.campanile_user_token)

  # Turbo changes the one entry, and the reader stays where they are in the list. The number comes to the layout by its subscription.
  def answer(notification)
    return redirect_to(notifications_path, status: :see_other) unless request.accept.to_s.include?(TURBO_STREAM)

    render partial: "change", formats: :html, content_type: TURBO_STREAM, locals: { id: params[:id], notification: notification }
  end

  # The page says so, and the layout waits for no second call.
  def unavailable(error)
    logger.warn("Campanile is unavailable: #{error.message}")
    @campanile_badge_count = nil
    render "unavailable", status: :service_unavailable, formats: :html
  end
end
